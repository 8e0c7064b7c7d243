/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of commands. It has one row for each command and ABI: CREATE_CQ
 * exists as write(), as extended write() and as ioctl, so it has three rows,
 * which share a handler and the structure of its arguments.
 *
 * A row is data. The dispatcher uses it to check sizes, reserved bytes, flags
 * and handles, so no handler checks them again.
 */
#ifndef T3_UVERBS_TABLE_H
#define T3_UVERBS_TABLE_H

/* 64-bit values of user space are used as pointers, lengths and divisors. */
#ifndef CONFIG_64BIT
#error "t3_uverbs needs a kernel of 64 bits"
#endif

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/err.h>
#include <linux/nospec.h>
#include <linux/stddef.h>
#include <linux/types.h>
#include <rdma/ib_user_verbs.h>

struct ib_device;
struct uv_call;
struct uv_device;
struct uv_type;

enum uv_abi {
	UV_ABI_WRITE,		/* struct ib_uverbs_cmd_hdr */
	UV_ABI_WRITE_EX,	/* the same with struct ib_uverbs_ex_cmd_hdr */
	UV_ABI_IOCTL,		/* struct ib_uverbs_ioctl_hdr */
};

/* How a field is converted between the caller's memory and the arguments of the handler. */
enum uv_kind {
	UV_IN,		/* bytes of the request into the arguments */
	UV_CONST,	/* ioctl: 64 bits into an unsigned number that may be smaller; must fit */
	UV_FLAGS,	/* ioctl: 32 or 64 bits, only .allowed may be set */
	UV_BITS,	/* write: 8 or 32 bits; only .allowed may be set, else .error */
	UV_OUT,		/* bytes of the arguments into the response */
	UV_OUT_LEN,	/* extended write: how many bytes of the response were written */
	UV_BUF,		/* ioctl: the caller's memory, which the handler accesses: struct uv_buf */
	UV_OBJ,		/* handle of an object into a struct ib_uobject * */
	UV_NEW,		/* new object, a struct ib_uobject *; its handle is a result */
	UV_FD,		/* descriptor of an event file into a struct uv_events * */
	UV_FD_NEW,	/* new event file, a struct uv_events *; its descriptor is a result */
};

enum uv_field_flags {
	UV_OPTIONAL = BIT(0),	/* ioctl: may be absent; UV_FD in write(): -1 is none */
	UV_EXTENSIBLE = BIT(1),	/* ioctl: may be longer if the excess is zero */
	UV_BUF_OUT = BIT(2),	/* UV_BUF: the handler writes to it */
	UV_ASYNC = BIT(3),	/* UV_FD, UV_FD_NEW: for asynchronous events, not completions */
};

/* What both ABIs have. */
struct uv_field {
	u8 kind;
	u8 access;		/* UV_OBJ */
	u8 flags;
	u16 arg;		/* offset in the arguments */
	u16 len;		/* size of the value */
	u32 allowed;		/* UV_FLAGS, UV_BITS */
	const struct uv_type *type;	/* UV_OBJ, UV_NEW */
};

struct uv_write_field {
	struct uv_field f;
	u16 request_offset;
	u16 response_offset;	/* UV_OUT, UV_OUT_LEN, UV_NEW, UV_FD_NEW */
	s8 error;		/* UV_BITS */
	bool (*when)(const void *request);	/* UV_OBJ: ignored unless true */
};

struct uv_ioctl_field {
	struct uv_field f;
	u16 attr;		/* id of the attribute */
	u16 min_len;		/* least size of the attribute */
};

/* Written after the handler has returned. */
static inline bool uv_field_is_result(const struct uv_field *field)
{
	return field->kind == UV_OUT || field->kind == UV_OUT_LEN;
}

struct uv_buf {
	void __user *ptr;
	u32 len;	/* the handler sets it to 0 if it has written nothing */
};

enum uv_row_flags {
	UV_CONTEXT = BIT(0),	/* needs a context */
	UV_DRIVER_DATA = BIT(1),	/* the driver's data may follow request and response */
	UV_TAIL = BIT(2),	/* the handler reads what follows the request */
	UV_OWN_RESPONSE = BIT(3),	/* the handler writes the response */
	UV_UNSUPPORTED = BIT(4),	/* a command of the ABI that no device here supports */
};

#define UV_MAX_ATTRS	24	/* largest id of a core attribute + 1 */

/* UV_ABI_WRITE and UV_ABI_WRITE_EX. */
struct uv_write_row {
	u16 command;		/* without flags */
	u16 request, response;	/* sizes of the structures */
	const struct uv_write_field *fields;	/* inputs before results */

	/* Set by uv_table_init(). */
	u16 request_min, response_min;	/* least sizes from the caller; extended: 0 */
	u16 ninputs;		/* the fields before the results */
};

/* UV_ABI_IOCTL. */
struct uv_ioctl_row {
	u16 object, method;
	const struct uv_ioctl_field *fields;

	/* Set by uv_table_init(). The sets have a bit for each field. */
	u32 mandatory;		/* set of fields that must be present */
	u32 outputs;		/* set of fields that are written after the handler has returned */
	u8 field_of_attr[UV_MAX_ATTRS];	/* index of the attribute's field + 1, 0: none */
};

struct uv_row {
	const char *name;
	u8 abi;
	u8 flags;
	u16 op[2];		/* offsets of the functions in struct ib_device_ops that it needs */
	u16 args_size;
	u16 nfields;
	u16 number;		/* in uv_rows, set by uv_table_init() */
	int (*handler)(struct uv_call *call, void *args);	/* NULL: none */
	union {
		struct uv_write_row write;
		struct uv_ioctl_row ioctl;
	};
};

extern struct uv_row *uv_rows[];
extern unsigned int uv_row_count;

/* The rows of each file. A row without a name ends each array. */
extern struct uv_row uv_device_rows[], uv_pd_rows[], uv_mr_rows[], uv_cq_rows[], uv_qp_rows[],
	uv_post_rows[], uv_srq_rows[], uv_ah_rows[], uv_ioctl_rows[];

/* Sizes of the arrays that a call has on the stack. */
#define UV_MAX_WIRE	320
#define UV_MAX_ARGS	352
#define UV_MAX_FIELDS	20	/* at most 32: sets of fields have 32 bits */
#define UV_MAX_HELD	8
#define UV_MAX_ROWS	128

void uv_table_init(void);
bool uv_row_driver_has(const struct uv_row *row, const struct ib_device *dev);
void uv_device_init_supported(struct uv_device *dev, const struct ib_device *ib_dev);

/* Sizes of the lookup arrays below. Each number of a command must be smaller. */
#define UV_WRITE_COMMANDS	64
#define UV_IOCTL_OBJECTS	20
#define UV_IOCTL_METHODS	8

/* The rows by the numbers in the caller's header. */
struct uv_index {
	const struct uv_row *write[2][UV_WRITE_COMMANDS];	/* plain, extended */
	const struct uv_row *ioctl[UV_IOCTL_OBJECTS][UV_IOCTL_METHODS];
};

extern struct uv_index uv_index;

static inline const struct uv_row *uv_find_write(u32 command)
{
	bool extended = command & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	u32 number = command & IB_USER_VERBS_CMD_COMMAND_MASK;

	if (command & ~(u32)(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_CMD_COMMAND_MASK))
		return ERR_PTR(-EINVAL);
	if (number >= UV_WRITE_COMMANDS)
		return ERR_PTR(-EOPNOTSUPP);
	number = array_index_nospec(number, UV_WRITE_COMMANDS);
	return uv_index.write[extended][number] ?: ERR_PTR(-EOPNOTSUPP);
}

static inline const struct uv_row *uv_find_ioctl(u16 object, u16 method)
{
	if (object >= UV_IOCTL_OBJECTS || method >= UV_IOCTL_METHODS)
		return NULL;
	object = array_index_nospec(object, UV_IOCTL_OBJECTS);
	method = array_index_nospec(method, UV_IOCTL_METHODS);
	return uv_index.ioctl[object][method];
}

#endif
