// SPDX-License-Identifier: GPL-2.0
/*
 * The table of commands: how rows are found, what a device is offered, and which mistakes in a row
 * are noticed.
 */
#include <kunit/test.h>
#include <linux/cache.h>
#include <linux/module.h>

/* Suites run, and fill the table, when their module's init is over. */
#undef __ro_after_init
#define __ro_after_init

#include "table.c"

/* Only their addresses count here. */
#define NO_TYPE(name) const struct uv_type uv_##name = {}
NO_TYPE(pd);
NO_TYPE(mr);
NO_TYPE(mw);
NO_TYPE(cq);
NO_TYPE(qp);
NO_TYPE(srq);
NO_TYPE(ah);

#define NO_HANDLER(name) \
	int uv_do_##name(struct uv_call *call, void *args) { return 0; }
NO_HANDLER(get_context)
NO_HANDLER(async_event_alloc)
NO_HANDLER(query_context)
NO_HANDLER(query_device)
NO_HANDLER(query_device_ex)
NO_HANDLER(query_port)
NO_HANDLER(query_gid_table)
NO_HANDLER(query_gid_entry)
NO_HANDLER(info_handles)
NO_HANDLER(invoke_write)
NO_HANDLER(alloc_pd)
NO_HANDLER(reg_mr)
NO_HANDLER(rereg_mr)
NO_HANDLER(query_mr)
NO_HANDLER(alloc_mw)
NO_HANDLER(create_cq)
NO_HANDLER(resize_cq)
NO_HANDLER(modify_cq)
NO_HANDLER(poll_cq)
NO_HANDLER(notify_cq)
NO_HANDLER(destroy_cq)
NO_HANDLER(create_qp)
NO_HANDLER(create_qp_ioctl)
NO_HANDLER(modify_qp)
NO_HANDLER(query_qp)
NO_HANDLER(destroy_evented)
NO_HANDLER(attach_mcast)
NO_HANDLER(detach_mcast)
NO_HANDLER(post_send)
NO_HANDLER(post_recv)
NO_HANDLER(post_srq_recv)
NO_HANDLER(create_srq)
NO_HANDLER(modify_srq)
NO_HANDLER(query_srq)
NO_HANDLER(create_ah)

static int table_suite_init(struct kunit_suite *suite)
{
	return uv_table_init();
}

/* --- every row ---------------------------------------------------------------- */

/* All rows are an array of parameters, which ends by returning NULL. */
static const void *next_row(const void *previous, char *name)
{
	static const char * const doors[] = { "write", "write_ex", "ioctl" };
	const struct uv_row *row = previous ? (const struct uv_row *)previous + 1 : uv_rows;

	if (row == uv_rows + uv_row_count)
		return NULL;
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "%s %s", doors[row->door], row->name);
	return row;
}

static void row_is_found_by_its_number(struct kunit *test)
{
	const struct uv_row *row = test->param_value;
	u32 flag = row->door == UV_DOOR_WRITE_EX ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0;

	if (row->door == UV_DOOR_IOCTL)
		KUNIT_EXPECT_PTR_EQ(test, uv_find_ioctl(row->object, row->method), row);
	else
		KUNIT_EXPECT_PTR_EQ(test, uv_find_write((row->method & 0xff) | flag), row);
}

static bool takes(const struct uv_row *row, enum uv_access access)
{
	unsigned int i;

	for (i = 0; i < row->nfields; i++)
		if (row->fields[i].kind == UV_OBJ && row->fields[i].access == access)
			return true;
	return false;
}

static bool makes(const struct uv_row *row)
{
	unsigned int i;

	for (i = 0; i < row->nfields; i++)
		if (row->fields[i].kind == UV_NEW || row->fields[i].kind == UV_FD_NEW)
			return true;
	return false;
}

/* What call.c and the doors rely on, and uv_table_init() does not look at. */
static void row_is_sound(struct kunit *test)
{
	const struct uv_row *row = test->param_value;
	unsigned int i, destroyed = 0;

	KUNIT_EXPECT_NULL(test, mistake(row));
	KUNIT_EXPECT_LE(test, row->request_min, row->request);
	KUNIT_EXPECT_LE(test, row->response_min, row->response);
	if (row->refused) {
		KUNIT_EXPECT_NULL(test, row->handler);
		return;
	}
	/* Nothing is both made and destroyed by one command, and a command does something. */
	KUNIT_EXPECT_FALSE(test, makes(row) && takes(row, UV_DESTROY));
	KUNIT_EXPECT_TRUE(test, row->handler || makes(row) || takes(row, UV_DESTROY));
	for (i = 0; i < row->nfields; i++) {
		const struct uv_field *field = &row->fields[i];

		destroyed += field->kind == UV_OBJ && field->access == UV_DESTROY;
		KUNIT_EXPECT_LE(test, field->min, field->len ?: field->min);
		if (row->door != UV_DOOR_IOCTL) {
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_CONST);
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_FLAGS);
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_BUF);
		} else {
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_BITS);
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_OUT_LEN);
			KUNIT_EXPECT_NULL(test, field->when);
		}
		/* A reserved field is refused, with an errno. */
		if (field->kind == UV_BITS)
			KUNIT_EXPECT_LT(test, field->error, 0);
	}
	KUNIT_EXPECT_LE(test, destroyed, 1);
}

/* The sets say of each field what the doors would find by looking at it. */
static void row_says_what_follows_from_its_fields(struct kunit *test)
{
	const struct uv_row *row = test->param_value;
	unsigned int i;

	KUNIT_EXPECT_LE(test, row->ninputs, row->nfields);
	for (i = 0; i < row->nfields; i++) {
		const struct uv_field *field = &row->fields[i];
		bool made = field->kind == UV_NEW || field->kind == UV_FD_NEW;
		bool result = field->kind == UV_OUT || field->kind == UV_OUT_LEN;
		bool written = field->kind == UV_BUF && field->flags & UV_WRITES;

		KUNIT_EXPECT_EQ(test, !(row->wanted & BIT(i)), !!(field->flags & UV_OPTIONAL));
		if (row->door == UV_DOOR_IOCTL)
			KUNIT_EXPECT_EQ(test, !!(row->answered & BIT(i)),
					made || result || written);
		else
			KUNIT_EXPECT_EQ(test, i < row->ninputs, !result);
	}
	KUNIT_EXPECT_EQ(test, row->wanted >> row->nfields, 0);
	KUNIT_EXPECT_EQ(test, row->answered >> row->nfields, 0);
}

/* --- numbers that are no command ------------------------------------------------- */

static void unknown_numbers_are_refused(struct kunit *test)
{
	const u32 extended = IB_USER_VERBS_CMD_FLAG_EXTENDED;
	u32 bit;

	for (bit = BIT(8); bit; bit <<= 1)
		if (bit != extended)
			KUNIT_EXPECT_EQ(test, PTR_ERR(uv_find_write(bit)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_find_write(UV_WRITE_COMMANDS - 1)), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_find_write(UV_WRITE_COMMANDS)), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_find_write(0xff)), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_find_write(extended | 0xff)), -EOPNOTSUPP);
	/* There is no extended form of it. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_find_write(extended | IB_USER_VERBS_CMD_ALLOC_PD)),
			-EOPNOTSUPP);
	KUNIT_EXPECT_NULL(test, uv_find_ioctl(UV_IOCTL_OBJECTS, 0));
	KUNIT_EXPECT_NULL(test, uv_find_ioctl(0, UV_IOCTL_METHODS));
	KUNIT_EXPECT_NULL(test, uv_find_ioctl(U16_MAX, U16_MAX));
	/* A driver's own objects. */
	KUNIT_EXPECT_NULL(test, uv_find_ioctl(1 << UVERBS_ID_NS_SHIFT, 0));
}

/* --- what a device is offered ------------------------------------------------------ */

static int some_function(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static void command_needs_the_driver_s_function(struct kunit *test)
{
	const struct uv_row *alloc = uv_find_write(IB_USER_VERBS_CMD_ALLOC_PD);
	struct ib_device *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->uverbs_cmd_mask = BIT_ULL(IB_USER_VERBS_CMD_ALLOC_PD);
	KUNIT_EXPECT_FALSE(test, uv_row_offered(alloc, dev));
	dev->ops.alloc_pd = some_function;
	KUNIT_EXPECT_TRUE(test, uv_row_offered(alloc, dev));
	dev->uverbs_cmd_mask = 0;
	KUNIT_EXPECT_FALSE(test, uv_row_offered(alloc, dev));
}

/* By ioctl the mask says nothing, and both functions must be there. */
static void command_of_two_functions_needs_both(struct kunit *test)
{
	const struct uv_row *create = uv_find_ioctl(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
	struct ib_device *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	void *function = some_function;

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->ops.create_cq = function;
	KUNIT_EXPECT_FALSE(test, uv_row_offered(create, dev));
	dev->ops.destroy_cq = function;
	KUNIT_EXPECT_TRUE(test, uv_row_offered(create, dev));
}

static void refused_command_is_offered_by_nobody(struct kunit *test)
{
	const struct uv_row *row = uv_find_write(IB_USER_VERBS_CMD_OPEN_XRCD);
	struct ib_device *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->uverbs_cmd_mask = ~0ULL;
	KUNIT_EXPECT_FALSE(test, uv_row_offered(row, dev));
	KUNIT_EXPECT_FALSE(test, uv_row_offered(row, NULL));
}

/* Its objects can still be destroyed, and calls say EIO, not that the command is unknown. */
static void device_that_has_gone_offers_everything(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, uv_row_offered(uv_find_write(IB_USER_VERBS_CMD_ALLOC_PD), NULL));
	KUNIT_EXPECT_TRUE(test, uv_row_offered(uv_find_write(IB_USER_VERBS_CMD_DESTROY_CQ), NULL));
}

/* --- mistakes ------------------------------------------------------------------------ */

static const struct uv_field behind_request[] = { { .kind = UV_IN, .at = 5, .len = 4 } };
static const struct uv_field behind_response[] = { { .kind = UV_OUT, .at = 5, .len = 4 } };
static const struct uv_field behind_arguments[] = { { .kind = UV_IN, .arg = 5, .len = 4 } };
static const struct uv_field result_behind[] = { { .kind = UV_OUT, .arg = 5, .len = 4 } };
static const struct uv_field no_type[] = { { .kind = UV_OBJ, .len = 4 } };
static const struct uv_field new_without_type[] = { { .kind = UV_NEW, .len = 4 } };
static const struct uv_field two_new[] = {
	{ .kind = UV_NEW, .type = &uv_pd },
	{ .kind = UV_FD_NEW },
};

static const struct uv_field many[UV_MAX_TAKEN + 1] = {
	[0 ... UV_MAX_TAKEN] = { .kind = UV_OBJ, .type = &uv_pd },
};

static const struct uv_field result_first[] = {
	{ .kind = UV_OUT, .len = 4 },
	{ .kind = UV_IN, .len = 4 },
};

static const struct uv_field high_attribute[] = { { .kind = UV_IN, .at = UV_MAX_ATTRS } };

#define ROW(list, ...) { .name = #list, .request = 8, .response = 8, .args = 8, \
	.fields = list, .nfields = ARRAY_SIZE(list), ##__VA_ARGS__ }

static const struct {
	const char *wrong;
	struct uv_row row;
} wrong_rows[] = {
	/* Each would take a place that is another command's, or behind the index. */
	{ "number without a place in the index",
	  { .name = "high method", .door = UV_DOOR_IOCTL, .method = UV_IOCTL_METHODS } },
	{ "number without a place in the index",
	  { .name = "high object", .door = UV_DOOR_IOCTL, .object = UV_IOCTL_OBJECTS } },
	{ "number without a place in the index",
	  { .name = "high command", .door = UV_DOOR_WRITE, .method = UV_WRITE_COMMANDS } },
	{ "number without a place in the index",
	  { .name = "high extended command", .door = UV_DOOR_WRITE_EX,
	    .method = UV_WRITE_COMMANDS } },
	{ "request or response too long", { .name = "long request", .request = UV_MAX_WIRE + 1 } },
	{ "request or response too long",
	  { .name = "long response", .response = UV_MAX_WIRE + 1 } },
	{ "too many arguments", { .name = "long arguments", .args = UV_MAX_ARGS + 1 } },
	{ "too many arguments", { .name = "many fields", .nfields = UV_MAX_FIELDS + 1 } },
	{ "field outside of the request or response", ROW(behind_request) },
	{ "field outside of the request or response", ROW(behind_response) },
	{ "value outside of the arguments", ROW(behind_arguments) },
	{ "result outside of the arguments", ROW(result_behind) },
	{ "result before the end", ROW(result_first) },
	{ "attribute of a high number", ROW(high_attribute, .door = UV_DOOR_IOCTL) },
	{ "object without a type", ROW(no_type) },
	{ "object without a type", ROW(new_without_type) },
	{ "too many objects", ROW(two_new) },
	{ "too many objects", ROW(many) },
};

static void wrong_row_is_noticed(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong_rows); i++)
		KUNIT_EXPECT_STREQ(test, mistake(&wrong_rows[i].row) ?: "nothing",
				   wrong_rows[i].wrong);
}

static void second_row_for_a_command_is_noticed(struct kunit *test)
{
	/* All places are taken by table_suite_init(). */
	KUNIT_EXPECT_EQ(test, uv_table_init(), -EINVAL);
}

static struct kunit_case table_cases[] = {
	KUNIT_CASE_PARAM(row_is_found_by_its_number, next_row),
	KUNIT_CASE_PARAM(row_is_sound, next_row),
	KUNIT_CASE_PARAM(row_says_what_follows_from_its_fields, next_row),
	KUNIT_CASE(unknown_numbers_are_refused),
	KUNIT_CASE(command_needs_the_driver_s_function),
	KUNIT_CASE(command_of_two_functions_needs_both),
	KUNIT_CASE(refused_command_is_offered_by_nobody),
	KUNIT_CASE(device_that_has_gone_offers_everything),
	KUNIT_CASE(wrong_row_is_noticed),
	KUNIT_CASE(second_row_for_a_command_is_noticed),
	{}
};

static struct kunit_suite table_suite = {
	.name = "t3_uverbs_table",
	.suite_init = table_suite_init,
	.test_cases = table_cases,
};

kunit_test_suites(&table_suite);

MODULE_LICENSE("GPL");
