// SPDX-License-Identifier: GPL-2.0
/*
 * The table of commands: each row, lookup, and the commands that a device supports.
 */
#include "product.h"

static int table_suite_init(struct kunit_suite *suite)
{
	const struct uv_row *row;
	unsigned int i, n = 0;

	for (i = 0; i < ARRAY_SIZE(uv_row_lists); i++) {
		for (row = uv_row_lists[i]; row->name; row++, n++) {
			if (row->abi == UV_ABI_IOCTL ?
			    row->ioctl.object >= UV_IOCTL_OBJECTS ||
			    row->ioctl.method >= UV_IOCTL_METHODS :
			    row->write.command >= UV_WRITE_COMMANDS)
				return -ERANGE;
		}
	}
	if (n > UV_MAX_ROWS)
		return -ERANGE;
	uv_table_init();
	return 0;
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

/* The size of the argument that a field sets or that is its result. */
static u16 arg_size(const struct uv_field *field)
{
	switch (field->kind) {
	case UV_IN:
	case UV_CONST:
	case UV_OUT:
		return field->len;
	case UV_FLAGS:
		return sizeof(u32);
	case UV_BUF:
		return sizeof(struct uv_buf);
	case UV_OBJ:
	case UV_NEW:
	case UV_FD:
	case UV_FD_NEW:
		return sizeof(void *);
	default:
		return 0;
	}
}

static void write_fields_fit(struct kunit *test, const struct uv_row *row)
{
	unsigned int i, results = 0;

	KUNIT_EXPECT_LE(test, row->write.request, UV_MAX_WIRE);
	KUNIT_EXPECT_LE(test, row->write.response, UV_MAX_WIRE);
	/* The address of the response: see uv_write_parse(). */
	if (row->abi == UV_ABI_WRITE && row->write.response)
		KUNIT_EXPECT_GE(test, row->write.request, sizeof(u64));
	for (i = 0; i < row->nfields; i++) {
		const struct uv_write_field *field = &row->write.fields[i];
		bool result = uv_field_is_result(&field->f);

		if (result || field->f.kind == UV_NEW || field->f.kind == UV_FD_NEW)
			KUNIT_EXPECT_LE(test, field->response_offset + field->f.len,
					row->write.response);
		else
			KUNIT_EXPECT_LE(test, field->request_offset + field->f.len,
					row->write.request);
		/* Inputs are first. */
		KUNIT_EXPECT_TRUE(test, result || !results);
		results += result;
	}
}

/* A call has arrays of these sizes on its stack. */
static void fields_fit(struct kunit *test)
{
	const struct uv_row *row = test->param_value;
	unsigned int held = 0, created = 0, i;

	KUNIT_EXPECT_LE(test, row->args_size, UV_MAX_ARGS);
	KUNIT_EXPECT_LE(test, row->nfields, UV_MAX_FIELDS);
	for (i = 0; i < row->nfields; i++) {
		const struct uv_field *field = uv_row_field(row, i);

		held += field->kind == UV_OBJ || field->kind == UV_FD;
		created += field->kind == UV_NEW || field->kind == UV_FD_NEW;
		KUNIT_EXPECT_LE(test, field->arg + arg_size(field), row->args_size);
		if (field->kind == UV_OBJ || field->kind == UV_NEW)
			KUNIT_EXPECT_NOT_NULL(test, field->type);
		if (row->abi == UV_ABI_IOCTL)
			KUNIT_EXPECT_LT(test, row->ioctl.fields[i].attr, UV_MAX_ATTRS);
	}
	KUNIT_EXPECT_LE(test, held, UV_MAX_HELD);
	KUNIT_EXPECT_LE(test, created, 1u);
	if (row->abi != UV_ABI_IOCTL)
		write_fields_fit(test, row);
}

/* Other conditions that steps.h, write.c and ioctl.c rely on. */
static void row_is_consistent(struct kunit *test)
{
	const struct uv_row *row = test->param_value;
	unsigned int i, destroyed = 0;

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

static struct kunit_case table_cases[] = {
	KUNIT_CASE_PARAM(lookup_finds_each_row, next_row),
	KUNIT_CASE_PARAM(fields_fit, next_row),
	KUNIT_CASE_PARAM(row_is_consistent, next_row),
	KUNIT_CASE_PARAM(derived_members_match_fields, next_row),
	KUNIT_CASE(unknown_numbers_fail),
	KUNIT_CASE(command_needs_driver_function),
	KUNIT_CASE(command_needs_both_driver_functions),
	KUNIT_CASE(unsupported_command_on_any_device),
	KUNIT_CASE(removed_device_supports_all_commands),
	{}
};

TEST_SUITE("t3_uverbs_table", table_cases, .suite_init = table_suite_init);
