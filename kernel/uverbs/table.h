/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of commands: one row for each way to ask for a command. CREATE_CQ
 * can be asked for by write(), by extended write() and by ioctl, so it has
 * three rows; they name the same handler and the same arguments.
 *
 * A row is data. What the dispatcher can check by looking at it - sizes,
 * reserved bytes, which objects are taken and how - no handler checks again.
 */
#ifndef T3_UVERBS_TABLE_H
#define T3_UVERBS_TABLE_H

/* 64-bit values of user space are pointers, lengths and divisors here. */
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
struct uv_type;

enum uv_door {
	UV_DOOR_WRITE,		/* struct ib_uverbs_cmd_hdr */
	UV_DOOR_WRITE_EX,	/* the same with struct ib_uverbs_ex_cmd_hdr */
	UV_DOOR_IOCTL,		/* struct ib_uverbs_ioctl_hdr */
};

/* How a field goes between the caller and the arguments of the handler. */
enum uv_kind {
	UV_IN,		/* bytes of the request into the arguments */
	UV_CONST,	/* ioctl: 64 bits into a smaller unsigned number, must fit */
	UV_FLAGS,	/* ioctl: 32 or 64 bits, only .allowed may be set */
	UV_BITS,	/* write: 8 or 32 bits; only .allowed may be set, else .error */
	UV_OUT,		/* bytes of the arguments into the response */
	UV_OUT_LEN,	/* extended write: how much of the response was filled */
	UV_BUF,		/* ioctl: caller's memory, read or written by the handler: struct uv_buf */
	UV_OBJ,		/* handle of an object: the struct ib_uobject * */
	UV_NEW,		/* object to be made: the struct ib_uobject *; its handle is a result */
	UV_FD,		/* event file, by its descriptor: the struct uv_events * */
	UV_FD_NEW,	/* event file to be made: the struct uv_events *; its fd is a result */
};

enum uv_field_flags {
	UV_OPTIONAL = BIT(0),	/* ioctl: may be left out; descriptor in write(): -1 is none */
	UV_EXTENDS = BIT(1),	/* ioctl: may be longer if what we do not know is zero */
	UV_WRITES = BIT(2),	/* UV_BUF: for results */
	UV_ASYNC = BIT(3),	/* UV_FD, UV_FD_NEW: asynchronous events, not completions */
};

struct uv_field {
	u8 kind;
	u8 access;		/* UV_OBJ */
	u8 flags;
	s8 error;		/* UV_BITS */
	u16 at;			/* ioctl: attribute; write(): offset in the request, or response */
	u16 min, len;		/* bytes that the caller gives at least, and that we know */
	u16 arg;		/* offset in the arguments */
	u32 allowed;		/* UV_FLAGS, UV_BITS */
	const struct uv_type *type;		/* UV_OBJ, UV_NEW */
	bool (*when)(const void *request);	/* write(): the field counts only when this is so */
};

/* Written when the command has been carried out. */
static inline bool uv_is_result(const struct uv_field *field)
{
	return field->kind == UV_OUT || field->kind == UV_OUT_LEN;
}

struct uv_buf {
	void __user *at;
	u32 len;	/* a handler that has written nothing there sets it to 0 */
};

enum uv_row_flags {
	UV_CONTEXT = BIT(0),	/* only with a context */
	UV_DRIVER_DATA = BIT(1),	/* the driver's own data may follow, both ways */
	UV_TAIL = BIT(2),	/* the handler reads what follows the request by itself */
	UV_OWN_RESPONSE = BIT(3),	/* the handler writes the response by itself */
};

#define UV_MAX_ATTRS	24	/* of the core; their ids are counted from 0 */

struct uv_row {
	const char *name;
	u8 door;
	u8 flags;
	u16 object;		/* ioctl */
	u16 method;		/* ioctl: method; write(): number of the command, without flags */
	u16 op[2];		/* offsets in struct ib_device_ops that must not be NULL */
	u16 request, request_min;	/* write(): bytes that we know, that there must be */
	u16 response, response_min;
	u16 args;		/* bytes of the arguments */
	u16 nfields;
	const struct uv_field *fields;
	int (*handler)(struct uv_call *call, void *args);	/* NULL: nothing to do */
	bool refused;		/* known, and nothing that a device here could do */

	/* Filled by uv_table_init(): its place, and what follows from the fields, as sets. */
	u16 number;
	u32 wanted;	/* ioctl: may not be left out */
	u32 answered;	/* ioctl: something is written when the command has been carried out */
	u16 ninputs;	/* write(): the results stand behind them */
	u8 place[UV_MAX_ATTRS];	/* ioctl: attribute -> its field + 1, 0: there is none */
};

extern struct uv_row uv_rows[];
extern const unsigned int uv_row_count;

/* Sizes of what a call has on the stack; uv_table_init() checks every row against them. */
#define UV_MAX_WIRE	320
#define UV_MAX_ARGS	352
#define UV_MAX_FIELDS	20	/* at most 32: there are sets of them */
#define UV_MAX_TAKEN	8
#define UV_MAX_ROWS	128

int uv_table_init(void);
bool uv_row_offered(const struct uv_row *row, const struct ib_device *dev);
void uv_rows_offered(unsigned long *rows, const struct ib_device *dev);

/* Numbers that are there, or might be in the range of what is there. */
#define UV_WRITE_COMMANDS	64
#define UV_IOCTL_OBJECTS	20
#define UV_IOCTL_METHODS	8

/* The rows by what a caller says. */
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
