// SPDX-License-Identifier: GPL-2.0
/* The headers, lengths and attributes of both ABIs, and the data for the driver. */
#include "user.h"

static int abi_init(struct kunit *test)
{
	user_response_at = NULL;
	user_begin(test, true);
	KUNIT_ASSERT_EQ(test, user_get_context(opened, NULL), 0);
	return 0;
}

/* --- write(): the plain header ----------------------------------------------------------- */

#define ALLOC_PD_WORDS ((sizeof(struct ib_uverbs_cmd_hdr) + sizeof(struct ib_uverbs_alloc_pd)) / 4)

static const struct write_case {
	const char *name;
	u32 command;
	u16 in_words, out_words;
	size_t count;
	int result;
} write_cases[] = {
	{ "valid", IB_USER_VERBS_CMD_ALLOC_PD, ALLOC_PD_WORDS, 1, 4 * ALLOC_PD_WORDS, 0 },
	{ "no header", IB_USER_VERBS_CMD_ALLOC_PD, ALLOC_PD_WORDS, 1, 7, -EINVAL },
	{ "fewer words than bytes", IB_USER_VERBS_CMD_ALLOC_PD, ALLOC_PD_WORDS - 1, 1,
	  4 * ALLOC_PD_WORDS, -EINVAL },
	{ "more words than bytes", IB_USER_VERBS_CMD_ALLOC_PD, ALLOC_PD_WORDS + 1, 1,
	  4 * ALLOC_PD_WORDS, -EINVAL },
	{ "short request", IB_USER_VERBS_CMD_ALLOC_PD, ALLOC_PD_WORDS - 1, 1,
	  4 * (ALLOC_PD_WORDS - 1), -ENOSPC },
	{ "response too short", IB_USER_VERBS_CMD_ALLOC_PD, ALLOC_PD_WORDS, 0,
	  4 * ALLOC_PD_WORDS, -ENOSPC },
	{ "unknown flag", IB_USER_VERBS_CMD_ALLOC_PD | BIT(30), ALLOC_PD_WORDS, 1,
	  4 * ALLOC_PD_WORDS, -EINVAL },
	{ "unknown command", 63, ALLOC_PD_WORDS, 1, 4 * ALLOC_PD_WORDS, -EOPNOTSUPP },
	{ "unsupported", IB_USER_VERBS_CMD_OPEN_XRCD, ALLOC_PD_WORDS, 1, 4 * ALLOC_PD_WORDS,
	  -EOPNOTSUPP },
	{ "not supported by the driver", IB_USER_VERBS_CMD_RESIZE_CQ, ALLOC_PD_WORDS, 1,
	  4 * ALLOC_PD_WORDS, -EOPNOTSUPP },
};

NAMED_PARAM(write, write_cases);

static void write_header(struct kunit *test)
{
	const struct write_case *c = test->param_value;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_alloc_pd request;
		u32 more[4];
	} __packed message = {
		.hdr = {
			.command = c->command, .in_words = c->in_words, .out_words = c->out_words,
		},
		.request.response = (u64)USER_RESPONSE,
	};
	ssize_t ret = user_write_raw(opened, &message, c->count);

	KUNIT_EXPECT_EQ(test, ret, c->result ?: c->count);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_PD], c->result ? 0 : 1);
}

static void unreadable_request_is_efault(struct kunit *test)
{
	struct ib_uverbs_cmd_hdr hdr = {
		.command = IB_USER_VERBS_CMD_ALLOC_PD, .in_words = ALLOC_PD_WORDS, .out_words = 1,
	};
	loff_t pos = 0;

	KUNIT_EXPECT_EQ(test, uv_write(opened, USER_HOLE, sizeof(hdr), &pos), -EFAULT);
	/* The header can be read, the request cannot. */
	KUNIT_ASSERT_EQ(test, copy_to_user(USER_HOLE - sizeof(hdr), &hdr, sizeof(hdr)), 0);
	KUNIT_EXPECT_EQ(test, uv_write(opened, USER_HOLE - sizeof(hdr), 4 * ALLOC_PD_WORDS, &pos),
			-EFAULT);
}

/* The data after request and response belongs to the driver. */
static void driver_gets_its_part(struct kunit *test)
{
	struct {
		struct ib_uverbs_alloc_pd request;
		u32 of_driver[3];
	} __packed request = {};
	struct {
		struct ib_uverbs_alloc_pd_resp response;
		u32 of_driver[2];
	} __packed response = {};

	KUNIT_EXPECT_EQ(test, UV_CMD(opened, ALLOC_PD, &request, &response), 0);
	KUNIT_EXPECT_EQ(test, fake->udata_in, 12);
	KUNIT_EXPECT_EQ(test, fake->udata_out, 8);
}

/* rdma-core 18 and 19 pass a length of 16 bytes for a request of 24. */
static void destroy_cq_of_rdma_core_18(struct kunit *test)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_destroy_cq request;
	} __packed message = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_DESTROY_CQ, .in_words = 4,
			.out_words = sizeof(struct ib_uverbs_destroy_cq_resp) / 4,
		},
		.request.response = (u64)USER_RESPONSE,
	};
	loff_t pos = 0;
	u32 cq;

	KUNIT_ASSERT_EQ(test, user_create_cq(opened, -1, &cq), 0);
	message.request.cq_handle = cq;
	KUNIT_ASSERT_EQ(test, copy_to_user(USER_REQUEST, &message, sizeof(message)), 0);
	KUNIT_EXPECT_EQ(test, uv_write(opened, USER_REQUEST, 16, &pos), 16);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_CQ], 0);
}

static void other_credentials_are_eacces(struct kunit *test)
{
	const struct cred *before;
	struct cred *other = prepare_creds();
	u32 handle;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, other);
	before = override_creds(other);
	err = user_alloc_pd(opened, &handle);
	revert_creds(before);
	put_cred(other);
	KUNIT_EXPECT_EQ(test, err, -EACCES);
	KUNIT_EXPECT_EQ(test, user_alloc_pd(opened, &handle), 0);
}

/* --- write(): the extended header ----------------------------------------------------------- */

#define QUERY_WORDS (sizeof(struct ib_uverbs_ex_query_device) / 8)
#define RESPONSE_WORDS (sizeof(struct ib_uverbs_ex_query_device_resp) / 8)

static const struct extended_case {
	const char *name;
	u16 in_words, out_words, driver_in, driver_out;
	u32 hdr_reserved, comp_mask, reserved;
	bool no_response, cut;
	int result;
} extended_cases[] = {
	{ "valid", QUERY_WORDS, RESPONSE_WORDS },
	{ "short response", QUERY_WORDS, 26 },
	{ "long response", QUERY_WORDS, RESPONSE_WORDS + 4 },
	{ "longer request of zeros", QUERY_WORDS + 1, RESPONSE_WORDS },
	{ "words for the driver", QUERY_WORDS, RESPONSE_WORDS, 1, 1 },
	{ "no extended header", QUERY_WORDS, RESPONSE_WORDS, .cut = true, .result = -EINVAL },
	{ "no request, which reads as zero", 0, RESPONSE_WORDS, QUERY_WORDS },
	{ "response of one word", QUERY_WORDS, 1 },
	{ "reserved in the header", QUERY_WORDS, RESPONSE_WORDS, .hdr_reserved = 1,
	  .result = -EINVAL },
	{ "length without address", QUERY_WORDS, RESPONSE_WORDS, .no_response = true,
	  .result = -EINVAL },
	{ "address without length", QUERY_WORDS, 0, .result = -EINVAL },
	{ "unknown bit", QUERY_WORDS, RESPONSE_WORDS, .comp_mask = 2, .result = -EINVAL },
	{ "reserved in the request", QUERY_WORDS, RESPONSE_WORDS, .reserved = 1,
	  .result = -EINVAL },
};

NAMED_PARAM(extended, extended_cases);

static void write_ex_header(struct kunit *test)
{
	const struct extended_case *c = test->param_value;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		struct ib_uverbs_ex_query_device request;
		u64 more[2];
	} __packed message = {
		.hdr = {
			.command = IB_USER_VERBS_EX_CMD_QUERY_DEVICE |
				   IB_USER_VERBS_CMD_FLAG_EXTENDED,
			.in_words = c->in_words, .out_words = c->out_words,
		},
		.ex = {
			.response = c->no_response ? 0 : (u64)USER_RESPONSE,
			.provider_in_words = c->driver_in, .provider_out_words = c->driver_out,
			.cmd_hdr_reserved = c->hdr_reserved,
		},
		.request = { .comp_mask = c->comp_mask, .reserved = c->reserved },
	};
	size_t count = c->cut ? sizeof(message.hdr) :
		       sizeof(message.hdr) + sizeof(message.ex) + 8 * (c->in_words + c->driver_in);
	struct ib_uverbs_ex_query_device_resp *response;
	size_t space = 8 * c->out_words;

	response = kunit_kzalloc(test, sizeof(*response) + 64, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, response);
	memset(response, 0xff, sizeof(*response) + 64);
	KUNIT_ASSERT_EQ(test, copy_to_user(USER_RESPONSE, response, sizeof(*response) + 64), 0);
	KUNIT_EXPECT_EQ(test, user_write_raw(opened, &message, count), c->result ?: count);
	KUNIT_ASSERT_EQ(test, copy_from_user(response, USER_RESPONSE, sizeof(*response) + 64), 0);
	if (c->result) {
		KUNIT_EXPECT_NULL(test, memchr_inv(response, 0xff, sizeof(*response) + 64));
		return;
	}
	if (space >= offsetofend(struct ib_uverbs_ex_query_device_resp, response_length)) {
		KUNIT_EXPECT_EQ(test, response->base.max_qp, 1234);
		KUNIT_EXPECT_EQ(test, response->response_length, min(space, sizeof(*response)));
	}
	/* Zeros after the known structure, and no byte beyond the caller's buffer. */
	if (space > sizeof(*response))
		KUNIT_EXPECT_NULL(test, memchr_inv(response + 1, 0, space - sizeof(*response)));
	KUNIT_EXPECT_EQ(test, ((u8 *)response)[space], 0xff);
}

/* --- ioctl: the header ------------------------------------------------------------------------ */

static const struct ioctl_case {
	const char *name;
	int length;		/* difference to the valid length */
	u16 object, method;
	u32 driver, reserved;
	int result;
} ioctl_cases[] = {
	{ "valid", 0, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT },
	{ "too short", -1, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, .result = -EINVAL },
	{ "too long", 1, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, .result = -EINVAL },
	/* The length has 16 bits: every header fits into a page of 64 KB. */
	{ "longer than a page of 16 KB", SZ_16K, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT,
	  .result = -EINVAL },
	{ "reserved", 0, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, .reserved = 1,
	  .result = -EPROTONOSUPPORT },
	{ "another driver", 0, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, .driver = 3,
	  .result = -EINVAL },
	{ "unknown object", 0, 19, 0, .result = -EPROTONOSUPPORT },
	{ "unknown method", 0, UVERBS_OBJECT_DEVICE, 7, .result = -EPROTONOSUPPORT },
	{ "object of a driver", 0, 1 << UVERBS_ID_NS_SHIFT, 0, .result = -EPROTONOSUPPORT },
	/* Not EPROTONOSUPPORT: libibverbs must not repeat it by write(). */
	{ "unsupported", 0, UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, .result = -EOPNOTSUPP },
};

NAMED_PARAM(ioctl, ioctl_cases);

static void query_port(struct user_ioctl *io, u16 space)
{
	user_ioctl_begin(io, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	user_attr(io, UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1);
	user_attr(io, UVERBS_ATTR_QUERY_PORT_RESP, space, (u64)USER_RESPONSE);
}

static void ioctl_header(struct kunit *test)
{
	const struct ioctl_case *c = test->param_value;
	struct user_ioctl io;

	query_port(&io, sizeof(struct ib_uverbs_query_port_resp_ex));
	io.hdr.object_id = c->object;
	io.hdr.method_id = c->method;
	io.hdr.driver_id = c->driver;
	io.hdr.reserved1 = c->reserved;
	io.hdr.length = struct_size(&io.hdr, attrs, io.hdr.num_attrs) + c->length;
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), c->result);
}

static void other_ioctls_are_enoioctlcmd(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, uv_ioctl(opened, RDMA_VERBS_IOCTL + 1, user_base), -ENOIOCTLCMD);
	KUNIT_EXPECT_EQ(test, uv_ioctl(opened, RDMA_VERBS_IOCTL, (unsigned long)USER_HOLE),
			-EFAULT);
}

/* --- ioctl: attributes ------------------------------------------------------------------------ */

/* One change each to a valid QUERY_PORT. */
static const struct attr_case {
	const char *name;
	u16 index;
	int id, len, flags, reserved;	/* -1: unchanged */
	u64 data;			/* 0: unchanged */
	int result;
} attr_cases[] = {
	{ "valid", 0, -1, -1, -1, -1 },
	{ "unknown and not mandatory", 2, 77, 4, 0, 0, 5 },
	{ "unknown and mandatory", 2, 77, 4, UVERBS_ATTR_F_MANDATORY, 0, 5, -EPROTONOSUPPORT },
	{ "twice", 2, UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1, 0, 1, -EINVAL },
	{ "one is missing", 0, 77, -1, 0, -1, 0, -EINVAL },
	{ "reserved", 0, -1, -1, -1, 1, 0, -EINVAL },
	{ "constant of the wrong length", 0, -1, 4, -1, -1, 0, -EINVAL },
	{ "constant that does not fit", 0, -1, -1, -1, -1, 0x101, -EINVAL },
	{ "no such port", 0, -1, -1, -1, -1, 9, -EINVAL },
	{ "short response", 1, -1, 8, -1, -1, 0, -EINVAL },
	{ "unwritable response", 1, -1, -1, -1, -1, 1, -EFAULT },
};

NAMED_PARAM(attr, attr_cases);

static void ioctl_attributes(struct kunit *test)
{
	const struct attr_case *c = test->param_value;
	struct ib_uverbs_attr *attr;
	struct user_ioctl io;

	query_port(&io, sizeof(struct ib_uverbs_query_port_resp_ex));
	if (c->index == 2)
		user_attr(&io, 0, 0, 0);
	attr = &io.attrs[c->index];
	if (c->id >= 0)
		attr->attr_id = c->id;
	if (c->len >= 0)
		attr->len = c->len;
	if (c->flags >= 0)
		attr->flags = c->flags;
	if (c->reserved >= 0)
		attr->attr_data.reserved = c->reserved;
	if (c->data)
		attr->data = c->data;
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), c->result);
	KUNIT_EXPECT_EQ(test, !!(io.attrs[1].flags & UVERBS_ATTR_F_VALID_OUTPUT), !c->result);
}

static void longer_response_is_zero_padded(struct kunit *test)
{
	const size_t known = sizeof(struct ib_uverbs_query_port_resp_ex);
	struct user_ioctl io;
	u8 *response = kunit_kzalloc(test, known + 16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, response);
	memset(response, 0xff, known + 16);
	KUNIT_ASSERT_EQ(test, copy_to_user(USER_RESPONSE, response, known + 16), 0);
	query_port(&io, known + 8);
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(response, USER_RESPONSE, known + 16), 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(response + known, 0, 8));
	KUNIT_EXPECT_NULL(test, memchr_inv(response + known + 8, 0xff, 8));
}

static void create_cq(struct user_ioctl *io, u64 vector)
{
	user_ioctl_begin(io, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
	user_attr(io, UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0);
	user_attr(io, UVERBS_ATTR_CREATE_CQ_CQE, 4, 16);
	user_attr(io, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, USER_COOKIE);
	user_attr(io, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4, vector);
	user_attr(io, UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4, (u64)USER_RESPONSE);
}

static void handle_is_returned_in_its_attribute(struct kunit *test)
{
	struct user_ioctl io;
	u32 cqe = 0;

	create_cq(&io, 1);
	io.attrs[0].data = 0x5555;
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), 0);
	KUNIT_ASSERT_EQ(test, get_user(cqe, (u32 __user *)USER_RESPONSE), 0);
	KUNIT_EXPECT_EQ(test, cqe, 17);
	KUNIT_EXPECT_EQ(test, user_destroy_cq(opened, io.attrs[0].data, NULL), 0);

	/* An invalid vector: no CQ is created, and the attribute is unchanged. */
	create_cq(&io, 2);
	io.attrs[0].data = 0x5555;
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), -EINVAL);
	KUNIT_EXPECT_EQ(test, io.attrs[0].data, 0x5555);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_CQ], 0);
}

static void unknown_flags_are_einval(struct kunit *test)
{
	struct user_ioctl io;

	create_cq(&io, 0);
	user_attr(&io, UVERBS_ATTR_CREATE_CQ_FLAGS, 4, BIT(5));
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), -EINVAL);
	create_cq(&io, 0);
	user_attr(&io, UVERBS_ATTR_CREATE_CQ_FLAGS, 2, 0);
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), -EINVAL);
	create_cq(&io, 0);
	user_attr(&io, UVERBS_ATTR_CREATE_CQ_FLAGS, 8, BIT_ULL(40));
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), -EINVAL);
	create_cq(&io, 0);
	user_attr(&io, UVERBS_ATTR_CREATE_CQ_FLAGS, 4, IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN);
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), 0);
}

/* More than STACK_ATTRS attributes, nearly all of them unknown. */
static void more_attributes_than_on_stack(struct kunit *test)
{
	struct user_ioctl io;
	int i;

	query_port(&io, sizeof(struct ib_uverbs_query_port_resp_ex));
	for (i = io.hdr.num_attrs; i < USER_MAX_ATTRS; i++)
		user_attr(&io, 100 + i, 4, 0)->flags = 0;
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), 0);
}

/* --- INVOKE_WRITE ------------------------------------------------------- */

static void user_invoke_write(struct user_ioctl *io, u32 command, size_t in_len, size_t out_len)
{
	user_ioctl_begin(io, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	user_attr(io, UVERBS_ATTR_CORE_IN, in_len, (u64)USER_REQUEST + 1024);
	user_attr(io, UVERBS_ATTR_CORE_OUT, out_len, (u64)USER_RESPONSE);
	user_attr(io, UVERBS_ATTR_WRITE_CMD, 8, command);
}

static void invoke_write(struct kunit *test)
{
	struct ib_uverbs_alloc_pd request = {};
	struct user_ioctl io;
	u32 handle = 0;

	KUNIT_ASSERT_EQ(test, copy_to_user(USER_REQUEST + 1024, &request, sizeof(request)), 0);
	user_invoke_write(&io, IB_USER_VERBS_CMD_ALLOC_PD, sizeof(request), 4);
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), 0);
	KUNIT_ASSERT_EQ(test, get_user(handle, (u32 __user *)USER_RESPONSE), 0);
	KUNIT_EXPECT_EQ(test, user_dealloc_pd(opened, handle), 0);

	user_invoke_write(&io, IB_USER_VERBS_CMD_ALLOC_PD, sizeof(request) - 4, 4);
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), -ENOSPC);
	user_invoke_write(&io, 62, sizeof(request), 4);
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), -EOPNOTSUPP);
	user_invoke_write(&io, IB_USER_VERBS_CMD_OPEN_XRCD, sizeof(request), 4);
	KUNIT_EXPECT_EQ(test, user_ioctl(opened, &io), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, fake->live[FAKE_PD], 0);
}

/* --- counters --------------------------------------------------------------------------------- */

static void calls_and_failures_are_counted(struct kunit *test)
{
	const struct uv_row *row = uv_find_write(IB_USER_VERBS_CMD_ALLOC_PD);
	struct uv_stats *stats = uverbs->stats;
	u32 handle;

	KUNIT_EXPECT_EQ(test, user_alloc_pd(opened, &handle), 0);
	fake->fail_create[FAKE_PD] = -ENOMEM;
	KUNIT_EXPECT_EQ(test, user_alloc_pd(opened, &handle), -ENOMEM);
	KUNIT_EXPECT_EQ(test, atomic64_read(&stats->row[row->number].calls), 2);
	KUNIT_EXPECT_EQ(test, atomic64_read(&stats->row[row->number].failed), 1);
}

/* --- the numbers of the character devices ------------------------------------------------ */

/* /proc/devices during the suite. systemd reads the names of devices there. */
static char proc_devices[4096];

/* The process that loads the module has /proc, the threads that run tests do not. */
static int abi_suite_init(struct kunit_suite *suite)
{
	int err = user_suite_init(suite);
	struct file *filp;
	loff_t pos = 0;

	if (err)
		return err;
	filp = filp_open("/proc/devices", O_RDONLY, 0);
	if (!IS_ERR(filp)) {
		kernel_read(filp, proc_devices, sizeof(proc_devices) - 1, &pos);
		filp_close(filp, NULL);
	}
	return 0;
}

/* As rules expect: "DeviceAllow=char-infiniband_verbs" of systemd, "c 231:* rwm" of cgroups. */
static void numbers_if_replacing_ib_uverbs(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, MAJOR(uverbs->base.dev.devt), 231);
	KUNIT_EXPECT_EQ(test, MINOR(uverbs->base.dev.devt), 192 + uverbs->base.devnum);
	KUNIT_EXPECT_EQ(test, MINOR(uv_devt(31)), 223);
	KUNIT_EXPECT_NE(test, MAJOR(uv_devt(32)), 231);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(proc_devices, "\n231 infiniband_verbs\n"), "%s",
				  proc_devices);
	KUNIT_EXPECT_NULL(test, strstr(proc_devices, "t3_uverbs"));
}

static void numbers_beside_ib_uverbs(struct kunit *test)
{
	KUNIT_EXPECT_NE(test, MAJOR(uverbs->base.dev.devt), 231);
	KUNIT_EXPECT_EQ(test, MAJOR(uverbs->base.dev.devt), MAJOR(dynamic_devt));
}

static struct kunit_case abi_cases[] = {
	KUNIT_CASE(numbers_if_replacing_ib_uverbs),
	KUNIT_CASE_PARAM(write_header, write_gen_params),
	KUNIT_CASE(unreadable_request_is_efault),
	KUNIT_CASE(driver_gets_its_part),
	KUNIT_CASE(destroy_cq_of_rdma_core_18),
	KUNIT_CASE(other_credentials_are_eacces),
	KUNIT_CASE_PARAM(write_ex_header, extended_gen_params),
	KUNIT_CASE_PARAM(ioctl_header, ioctl_gen_params),
	KUNIT_CASE(other_ioctls_are_enoioctlcmd),
	KUNIT_CASE_PARAM(ioctl_attributes, attr_gen_params),
	KUNIT_CASE(longer_response_is_zero_padded),
	KUNIT_CASE(handle_is_returned_in_its_attribute),
	KUNIT_CASE(unknown_flags_are_einval),
	KUNIT_CASE(more_attributes_than_on_stack),
	KUNIT_CASE(invoke_write),
	KUNIT_CASE(calls_and_failures_are_counted),
	{}
};

static struct kunit_suite abi_suite = {
	.name = "t3_uverbs_abi",
	.suite_init = abi_suite_init,
	.suite_exit = user_suite_exit,
	.init = abi_init,
	.exit = user_end,
	.test_cases = abi_cases,
};

static struct kunit_case beside_cases[] = {
	KUNIT_CASE(numbers_beside_ib_uverbs),
	{}
};

/* Registers the numbers of ib_uverbs, as ib_uverbs does. */
static int beside_suite_init(struct kunit_suite *suite)
{
	int err = register_chrdev_region(MKDEV(231, 192), 32, "infiniband_verbs");

	if (err)
		return err;
	err = uv_devices_init() == -EBUSY ? 0 : -EINVAL;
	if (!err) {
		class_name = "t3_kunit_verbs";
		prefix = "t3kunit";
		err = user_suite_init(suite);
	}
	if (err)
		unregister_chrdev_region(MKDEV(231, 192), 32);
	return err;
}

static void beside_suite_exit(struct kunit_suite *suite)
{
	user_suite_exit(suite);
	unregister_chrdev_region(MKDEV(231, 192), 32);
}

static struct kunit_suite beside_suite = {
	.name = "t3_uverbs_beside",
	.suite_init = beside_suite_init,
	.suite_exit = beside_suite_exit,
	.init = abi_init,
	.exit = user_end,
	.test_cases = beside_cases,
};

TEST_MODULE("t3_uverbs_abi", &abi_suite, &beside_suite);
