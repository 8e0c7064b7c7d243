// SPDX-License-Identifier: GPL-2.0
/*
 * The table of commands: lookup of rows, the commands that a device supports, and the errors that
 * uv_row_check() finds.
 */
#include "product.h"

static int table_suite_init(struct kunit_suite *suite)
{
	return uv_table_init();
}

/* --- each row ---------------------------------------------------------------- */

/* The parameters are the rows. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
static const void *next_row(const void *previous, char *name)
#else
static const void *next_row(struct kunit *test, const void *previous, char *name)
#endif
{
	static const char * const abis[] = { "write", "write_ex", "ioctl" };
	unsigned int number = previous ? ((const struct uv_row *)previous)->number + 1 : 0;
	const struct uv_row *row = uv_rows[number];

	if (number == uv_row_count)
		return NULL;
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "%s %s", abis[row->abi], row->name);
	return row;
}

static void lookup_finds_each_row(struct kunit *test)
{
	const struct uv_row *row = test->param_value;
	u32 flag = row->abi == UV_ABI_WRITE_EX ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0;

	if (row->abi == UV_ABI_IOCTL)
		KUNIT_EXPECT_PTR_EQ(test, uv_find_ioctl(row->ioctl.object, row->ioctl.method), row);
	else
		KUNIT_EXPECT_PTR_EQ(test, uv_find_write(row->write.command | flag), row);
}

static bool takes(const struct uv_row *row, enum uv_access access)
{
	unsigned int i;

	for (i = 0; i < row->nfields; i++)
		if (uv_row_field(row, i)->kind == UV_OBJ && uv_row_field(row, i)->access == access)
			return true;
	return false;
}

static bool makes(const struct uv_row *row)
{
	unsigned int i;

	for (i = 0; i < row->nfields; i++)
		if (uv_row_field(row, i)->kind == UV_NEW || uv_row_field(row, i)->kind == UV_FD_NEW)
			return true;
	return false;
}

/* Conditions that steps.h, write.c and ioctl.c rely on and uv_table_init() does not check. */
static void row_is_consistent(struct kunit *test)
{
	const struct uv_row *row = test->param_value;
	unsigned int i, destroyed = 0;

	KUNIT_EXPECT_NULL(test, uv_row_check(row));
	if (row->abi != UV_ABI_IOCTL) {
		KUNIT_EXPECT_LE(test, row->write.request_min, row->write.request);
		KUNIT_EXPECT_LE(test, row->write.response_min, row->write.response);
		KUNIT_EXPECT_LE(test, row->write.ninputs, row->nfields);
	}
	if (row->flags & UV_UNSUPPORTED) {
		KUNIT_EXPECT_NULL(test, row->handler);
		return;
	}
	/* No command both creates and destroys, and each has an effect. */
	KUNIT_EXPECT_FALSE(test, makes(row) && takes(row, UV_DESTROY));
	KUNIT_EXPECT_TRUE(test, row->handler || makes(row) || takes(row, UV_DESTROY));
	for (i = 0; i < row->nfields; i++) {
		const struct uv_field *field = uv_row_field(row, i);

		destroyed += field->kind == UV_OBJ && field->access == UV_DESTROY;
		if (row->abi != UV_ABI_IOCTL) {
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_CONST);
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_FLAGS);
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_BUF);
		} else {
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_BITS);
			KUNIT_EXPECT_NE(test, (int)field->kind, UV_OUT_LEN);
			KUNIT_EXPECT_LE(test, row->ioctl.fields[i].min_len,
					field->len ?: row->ioctl.fields[i].min_len);
		}
		/* A reserved field that is set fails with an errno. */
		if (field->kind == UV_BITS)
			KUNIT_EXPECT_LT(test, row->write.fields[i].error, 0);
	}
	KUNIT_EXPECT_LE(test, destroyed, 1);
}

/* The derived members agree with each field. */
static void derived_members_match_fields(struct kunit *test)
{
	const struct uv_row *row = test->param_value;
	unsigned int i;

	for (i = 0; i < row->nfields; i++) {
		const struct uv_field *field = uv_row_field(row, i);
		bool made = field->kind == UV_NEW || field->kind == UV_FD_NEW;
		bool result = field->kind == UV_OUT || field->kind == UV_OUT_LEN;
		bool written = field->kind == UV_BUF && field->flags & UV_BUF_OUT;

		if (row->abi != UV_ABI_IOCTL) {
			KUNIT_EXPECT_EQ(test, i < row->write.ninputs, !result);
			continue;
		}
		KUNIT_EXPECT_EQ(test, !(row->ioctl.mandatory & BIT(i)),
				!!(field->flags & UV_OPTIONAL));
		KUNIT_EXPECT_EQ(test, !!(row->ioctl.outputs & BIT(i)), made || result || written);
		KUNIT_EXPECT_EQ(test, row->ioctl.field_of_attr[row->ioctl.fields[i].attr], i + 1);
	}
	if (row->abi != UV_ABI_IOCTL)
		return;
	KUNIT_EXPECT_EQ(test, row->ioctl.mandatory >> row->nfields, 0);
	KUNIT_EXPECT_EQ(test, row->ioctl.outputs >> row->nfields, 0);
}

/* --- unknown numbers ------------------------------------------------- */

static void unknown_numbers_fail(struct kunit *test)
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
	/* It has no extended form. */
	KUNIT_EXPECT_EQ(test, PTR_ERR(uv_find_write(extended | IB_USER_VERBS_CMD_ALLOC_PD)),
			-EOPNOTSUPP);
	KUNIT_EXPECT_NULL(test, uv_find_ioctl(UV_IOCTL_OBJECTS, 0));
	KUNIT_EXPECT_NULL(test, uv_find_ioctl(0, UV_IOCTL_METHODS));
	KUNIT_EXPECT_NULL(test, uv_find_ioctl(U16_MAX, U16_MAX));
	/* An object of a driver. */
	KUNIT_EXPECT_NULL(test, uv_find_ioctl(1 << UVERBS_ID_NS_SHIFT, 0));
}

/* --- commands that a device supports ------------------------------------------------- */

static int driver_function(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static void command_needs_driver_function(struct kunit *test)
{
	const struct uv_row *alloc = uv_find_write(IB_USER_VERBS_CMD_ALLOC_PD);
	struct ib_device *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->uverbs_cmd_mask = BIT_ULL(IB_USER_VERBS_CMD_ALLOC_PD);
	KUNIT_EXPECT_FALSE(test, uv_row_driver_has(alloc, dev));
	dev->ops.alloc_pd = driver_function;
	KUNIT_EXPECT_TRUE(test, uv_row_driver_has(alloc, dev));
	dev->uverbs_cmd_mask = 0;
	KUNIT_EXPECT_FALSE(test, uv_row_driver_has(alloc, dev));
}

/* An ioctl does not depend on uverbs_cmd_mask and needs both functions. */
static void command_needs_both_driver_functions(struct kunit *test)
{
	const struct uv_row *create = uv_find_ioctl(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
	struct ib_device *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	void *function = driver_function;

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->ops.create_cq = function;
	KUNIT_EXPECT_FALSE(test, uv_row_driver_has(create, dev));
	dev->ops.destroy_cq = function;
	KUNIT_EXPECT_TRUE(test, uv_row_driver_has(create, dev));
}

static void unsupported_command_on_any_device(struct kunit *test)
{
	const struct uv_row *row = uv_find_write(IB_USER_VERBS_CMD_OPEN_XRCD);
	struct ib_device *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->uverbs_cmd_mask = ~0ULL;
	KUNIT_EXPECT_FALSE(test, uv_row_driver_has(row, dev));
	KUNIT_EXPECT_FALSE(test, uv_row_driver_has(row, NULL));
}

/* Objects can still be destroyed, and other calls return EIO instead of EOPNOTSUPP. */
static void removed_device_supports_all_commands(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, uv_row_driver_has(uv_find_write(IB_USER_VERBS_CMD_ALLOC_PD), NULL));
	KUNIT_EXPECT_TRUE(test,
			  uv_row_driver_has(uv_find_write(IB_USER_VERBS_CMD_DESTROY_CQ), NULL));
}

/* --- errors in rows ------------------------------------------------------------------------ */

static const struct uv_write_field field_beyond_request[] = {
	{ .f = { .kind = UV_IN, .len = 4 }, .request_offset = 5 },
};

static const struct uv_write_field field_beyond_response[] = {
	{ .f = { .kind = UV_OUT, .len = 4 }, .response_offset = 5 },
};

static const struct uv_write_field handle_beyond_response[] = {
	{ .f = { .kind = UV_NEW, .type = &uv_pd, .len = 4 }, .response_offset = 5 },
};

static const struct uv_write_field field_beyond_args[] = {
	{ .f = { .kind = UV_IN, .arg = 5, .len = 4 } },
};

static const struct uv_write_field result_beyond_args[] = {
	{ .f = { .kind = UV_OUT, .arg = 5, .len = 4 } },
};

static const struct uv_write_field object_beyond_args[] = {
	{ .f = { .kind = UV_OBJ, .type = &uv_pd, .arg = 4, .len = 4 } },
};

static const struct uv_write_field event_file_beyond_args[] = {
	{ .f = { .kind = UV_FD, .arg = 4, .len = 4 } },
};

static const struct uv_write_field no_type[] = { { .f = { .kind = UV_OBJ, .len = 4 } } };
static const struct uv_write_field new_without_type[] = { { .f = { .kind = UV_NEW, .len = 4 } } };

static const struct uv_write_field two_new[] = {
	{ .f = { .kind = UV_NEW, .type = &uv_pd } },
	{ .f = { .kind = UV_FD_NEW } },
};

static const struct uv_write_field held_too_many[UV_MAX_HELD + 1] = {
	[0 ... UV_MAX_HELD] = { .f = { .kind = UV_OBJ, .type = &uv_pd } },
};

static const struct uv_write_field result_first[] = {
	{ .f = { .kind = UV_OUT, .len = 4 } },
	{ .f = { .kind = UV_IN, .len = 4 } },
};

static const struct uv_ioctl_field high_attribute[] = {
	{ .f = { .kind = UV_IN }, .attr = UV_MAX_ATTRS },
};

#define WRITE_ROW(list) { .name = #list, .args_size = 8, .nfields = ARRAY_SIZE(list), \
	.write = { .request = 8, .response = 8, .fields = list } }

static const struct {
	const char *error;
	struct uv_row row;
} invalid_rows[] = {
	/* Each would use the entry of another command or one beyond the index. */
	{ "number out of range",
	  { .name = "high method", .abi = UV_ABI_IOCTL, .ioctl.method = UV_IOCTL_METHODS } },
	{ "number out of range",
	  { .name = "high object", .abi = UV_ABI_IOCTL, .ioctl.object = UV_IOCTL_OBJECTS } },
	{ "number out of range",
	  { .name = "high command", .abi = UV_ABI_WRITE, .write.command = UV_WRITE_COMMANDS } },
	{ "number out of range",
	  { .name = "high extended command", .abi = UV_ABI_WRITE_EX,
	    .write.command = UV_WRITE_COMMANDS } },
	{ "request or response too long",
	  { .name = "long request", .write.request = UV_MAX_WIRE + 1 } },
	{ "request or response too long",
	  { .name = "long response", .write.response = UV_MAX_WIRE + 1 } },
	{ "request without the address of the response",
	  { .name = "short request", .write = { .request = 4, .response = 4 } } },
	{ "too many arguments", { .name = "long arguments", .args_size = UV_MAX_ARGS + 1 } },
	{ "too many arguments", { .name = "many fields", .nfields = UV_MAX_FIELDS + 1 } },
	{ "field outside of the request or response", WRITE_ROW(field_beyond_request) },
	{ "field outside of the request or response", WRITE_ROW(field_beyond_response) },
	{ "field outside of the request or response", WRITE_ROW(handle_beyond_response) },
	{ "value outside of the arguments", WRITE_ROW(field_beyond_args) },
	{ "value outside of the arguments", WRITE_ROW(object_beyond_args) },
	{ "value outside of the arguments", WRITE_ROW(event_file_beyond_args) },
	{ "result outside of the arguments", WRITE_ROW(result_beyond_args) },
	{ "input after a result", WRITE_ROW(result_first) },
	{ "attribute id out of range",
	  { .name = "high attribute", .abi = UV_ABI_IOCTL, .args_size = 8,
	    .nfields = ARRAY_SIZE(high_attribute), .ioctl.fields = high_attribute } },
	{ "object without a type", WRITE_ROW(no_type) },
	{ "object without a type", WRITE_ROW(new_without_type) },
	{ "too many objects", WRITE_ROW(two_new) },
	{ "too many objects", WRITE_ROW(held_too_many) },
};

static void invalid_row_is_reported(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(invalid_rows); i++)
		KUNIT_EXPECT_STREQ(test, uv_row_check(&invalid_rows[i].row) ?: "nothing",
				   invalid_rows[i].error);
}

static void duplicate_row_is_reported(struct kunit *test)
{
	/* table_suite_init() has filled the index. */
	KUNIT_EXPECT_EQ(test, uv_table_init(), -EINVAL);
}

static struct kunit_case table_cases[] = {
	KUNIT_CASE_PARAM(lookup_finds_each_row, next_row),
	KUNIT_CASE_PARAM(row_is_consistent, next_row),
	KUNIT_CASE_PARAM(derived_members_match_fields, next_row),
	KUNIT_CASE(unknown_numbers_fail),
	KUNIT_CASE(command_needs_driver_function),
	KUNIT_CASE(command_needs_both_driver_functions),
	KUNIT_CASE(unsupported_command_on_any_device),
	KUNIT_CASE(removed_device_supports_all_commands),
	KUNIT_CASE(invalid_row_is_reported),
	KUNIT_CASE(duplicate_row_is_reported),
	{}
};

TEST_SUITE("t3_uverbs_table", table_cases, .suite_init = table_suite_init);
