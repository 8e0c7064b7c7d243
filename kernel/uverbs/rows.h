/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a file of commands (cmd_*.c) declares its rows of the table. For each
 * command it has the structure of the arguments and the handler. The array of its
 * rows, one for each command and ABI, is at its end; table.c collects the arrays.
 *
 * UV_WRITE_FIELDS() and UV_IOCTL_FIELDS() set the fields of a row. They name the
 * structures once: the arguments, the request and the response. The fields are
 * W_...() and A_...() below, which name a member of the request or response, or
 * an attribute, and a member of the arguments.
 */
#ifndef T3_UVERBS_ROWS_H
#define T3_UVERBS_ROWS_H

#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/stddef.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "call.h"

/* ---- arguments that several files use ----------------------------------------- */

/* The commands that destroy an object and have no results. */
struct uv_destroy {
	struct ib_uobject *obj;
};

/* DESTROY_QP and DESTROY_SRQ. */
struct uv_destroy_uevent {
	struct ib_uobject *obj;
	/* out: */
	u32 reported;
};

int uv_do_destroy_uevent(struct uv_call *call, void *args);	/* in cmd_qp.c */

/* The response of a command that has none. */
struct uv_none {
};

/* ---- the command of a row ------------------------------------------------------- */

/* A larger number would use the entry of another command in the index. */
#define UV_NUMBER(number, end) ((number) + BUILD_BUG_ON_ZERO((number) >= (end)))
#define UV_COMMAND(number) UV_NUMBER((number) & IB_USER_VERBS_CMD_COMMAND_MASK, UV_WRITE_COMMANDS)

#define UV_WRITE_CMD(cmd) .abi = UV_ABI_WRITE, \
	.write.command = UV_COMMAND(cmd)
#define UV_WRITE_EX_CMD(cmd) .abi = UV_ABI_WRITE_EX, \
	.write.command = UV_COMMAND(cmd)
#define UV_IOCTL_METHOD(obj, cmd) .abi = UV_ABI_IOCTL, \
	.ioctl.object = UV_NUMBER(obj, UV_IOCTL_OBJECTS), \
	.ioctl.method = UV_NUMBER(cmd, UV_IOCTL_METHODS)

/* The functions of struct ib_device_ops that the driver must have. */
#define UV_NEEDS_FN(fn) .op = { offsetof(struct ib_device_ops, fn) }
#define UV_NEEDS_FN2(fn, fn2) .op = { offsetof(struct ib_device_ops, fn), \
	offsetof(struct ib_device_ops, fn2) }

/* ---- the fields of a row ---------------------------------------------------------- */

#define UV_WRITE_FIELDS(args, req, resp, ...) \
	.args_size = sizeof(struct args), \
	.write.request = sizeof(struct req), .write.response = sizeof(struct resp), \
	.nfields = UV_COUNT(__VA_ARGS__), \
	.write.fields = (const struct uv_write_field[]) { \
		UV_FOR_EACH_FIELD((args, req, resp), __VA_ARGS__) }
#define UV_IOCTL_FIELDS(args, ...) \
	.args_size = sizeof(struct args), \
	.nfields = UV_COUNT(__VA_ARGS__), \
	.ioctl.fields = (const struct uv_ioctl_field[]) { \
		UV_FOR_EACH_FIELD((args), __VA_ARGS__) }

/*
 * Fields of write(). The build checks that the argument of an object, event file
 * or buffer has its type, that a handle has 32 bits, and that a value or a SPAN
 * has the same size in the request or response and in the arguments.
 */
#define W_IN(member, arg) (UV_W_IN, (member, arg))
#define W_OUT(member, arg) (UV_W_OUT, (member, arg))
/* Consecutive members that are the same and have the same order in the arguments. */
#define W_IN_SPAN(first, last, arg, arg_last) (UV_W_IN_SPAN, (first, last, arg, arg_last))
#define W_OUT_SPAN(first, last, arg, arg_last) (UV_W_OUT_SPAN, (first, last, arg, arg_last))
/* The whole request or response. */
#define W_IN_ALL(arg) (UV_W_IN_ALL, (arg))
#define W_OUT_ALL(arg) (UV_W_OUT_ALL, (arg))
/* A word of the request in which only these bits may be set, or none. */
#define W_BITS(member, bits, err) (UV_W_BITS, (member, bits, err))
#define W_ZERO(member) (UV_W_BITS, (member, 0, EINVAL))
#define W_ZERO_BYTE(member) (UV_W_ZERO_BYTE, (member))
#define W_OUT_LEN(member) (UV_W_OUT_LEN, (member))
#define W_OBJ(of, how, member, arg) (UV_W_OBJ, (NULL, &uv_##of, how, member, arg))
#define W_OBJ_WHEN(cond, of, how, member, arg) (UV_W_OBJ, (cond, &uv_##of, how, member, arg))
#define W_NEW(of, member, arg) (UV_W_NEW, (&uv_##of, member, arg))
#define W_FD_OR_NONE(member, arg) (UV_W_FD, (UV_OPTIONAL, member, arg))
#define W_FD_NEW(how, member, arg) (UV_W_FD_NEW, (how, member, arg))

/* Fields of the ioctl. The last argument of some, enum uv_field_flags, may be absent. */
#define A_IN(attr, arg, ...) (UV_A_VALUE, (UV_IN, attr, arg, ##__VA_ARGS__, 0))
#define A_OUT(attr, arg, ...) (UV_A_VALUE, (UV_OUT, attr, arg, ##__VA_ARGS__, 0))
#define A_CONST(attr, arg) (UV_A_VALUE, (UV_CONST, attr, arg, 0))
#define A_FLAGS(attr, bits, arg, ...) \
	(UV_A_FLAGS, (attr, bits, arg, ##__VA_ARGS__, 0))
#define A_BUF(attr, min, arg, how) (UV_A_BUF, (attr, min, arg, how))
#define A_OBJ(of, how, attr, arg, ...) \
	(UV_A_OBJ, (UV_OBJ, &uv_##of, how, attr, arg, ##__VA_ARGS__, 0))
#define A_NEW(of, attr, arg) (UV_A_OBJ, (UV_NEW, &uv_##of, 0, attr, arg, 0))
#define A_FD(attr, arg, how) (UV_A_FD, (UV_FD, attr, arg, how))
#define A_FD_NEW(attr, arg, how) (UV_A_FD, (UV_FD_NEW, attr, arg, how))

/* ---- their initializers --------------------------------------------------------- */

#define UV_W_SIZE(args, wire, member, arg) (sizeof_field(struct wire, member) + \
	BUILD_BUG_ON_ZERO(sizeof_field(struct wire, member) != sizeof_field(struct args, arg)))
#define UV_W_WORD(wire, member) (offsetof(struct wire, member) + \
	BUILD_BUG_ON_ZERO(sizeof_field(struct wire, member) != sizeof(u32)))
#define UV_W_ALL(args, wire, arg) (sizeof(struct wire) + \
	BUILD_BUG_ON_ZERO(sizeof(struct wire) != sizeof_field(struct args, arg)))
/* The offset of a member of the arguments, which must have this type. */
#define UV_ARG(args, of, arg) (offsetof(struct args, arg) + \
	BUILD_BUG_ON_ZERO(!__same_type(((struct args *)0)->arg, of)))
#define UV_SPAN(of, first, last) (offsetofend(struct of, last) - offsetof(struct of, first))
#define UV_W_SPAN(args, wire, first, last, arg, arg_last) (UV_SPAN(wire, first, last) + \
	BUILD_BUG_ON_ZERO(UV_SPAN(wire, first, last) != UV_SPAN(args, arg, arg_last)))

#define UV_W_IN(args, req, resp, member, arg_) { .f.kind = UV_IN, \
	.request_offset = offsetof(struct req, member), \
	.f.len = UV_W_SIZE(args, req, member, arg_), .f.arg = offsetof(struct args, arg_) }
#define UV_W_OUT(args, req, resp, member, arg_) { .f.kind = UV_OUT, \
	.response_offset = offsetof(struct resp, member), \
	.f.len = UV_W_SIZE(args, resp, member, arg_), .f.arg = offsetof(struct args, arg_) }
#define UV_W_IN_SPAN(args, req, resp, first, last, arg_, arg_last) { .f.kind = UV_IN, \
	.request_offset = offsetof(struct req, first), .f.arg = offsetof(struct args, arg_), \
	.f.len = UV_W_SPAN(args, req, first, last, arg_, arg_last) }
#define UV_W_OUT_SPAN(args, req, resp, first, last, arg_, arg_last) { .f.kind = UV_OUT, \
	.response_offset = offsetof(struct resp, first), .f.arg = offsetof(struct args, arg_), \
	.f.len = UV_W_SPAN(args, resp, first, last, arg_, arg_last) }
#define UV_W_IN_ALL(args, req, resp, arg_) { .f.kind = UV_IN, \
	.f.len = UV_W_ALL(args, req, arg_), .f.arg = offsetof(struct args, arg_) }
#define UV_W_OUT_ALL(args, req, resp, arg_) { .f.kind = UV_OUT, \
	.f.len = UV_W_ALL(args, resp, arg_), .f.arg = offsetof(struct args, arg_) }
#define UV_W_BITS(args, req, resp, member, bits, err) { .f.kind = UV_BITS, \
	.request_offset = UV_W_WORD(req, member), .f.len = sizeof(u32), \
	.f.allowed = bits, .error = -(err) }
#define UV_W_ZERO_BYTE(args, req, resp, member) { .f.kind = UV_BITS, .error = -EINVAL, \
	.request_offset = offsetof(struct req, member), .f.len = sizeof(u8) + \
	BUILD_BUG_ON_ZERO(sizeof_field(struct req, member) != sizeof(u8)) }
#define UV_W_OUT_LEN(args, req, resp, member) { .f.kind = UV_OUT_LEN, \
	.response_offset = UV_W_WORD(resp, member), .f.len = sizeof(u32) }
#define UV_W_OBJ(args, req, resp, cond, of, how, member, arg_) { .f.kind = UV_OBJ, \
	.f.type = of, .f.access = how, .when = cond, \
	.request_offset = UV_W_WORD(req, member), .f.len = sizeof(u32), \
	.f.arg = UV_ARG(args, struct ib_uobject *, arg_) }
#define UV_W_NEW(args, req, resp, of, member, arg_) { .f.kind = UV_NEW, .f.type = of, \
	.response_offset = UV_W_WORD(resp, member), .f.len = sizeof(u32), \
	.f.arg = UV_ARG(args, struct ib_uobject *, arg_) }
#define UV_W_FD(args, req, resp, how, member, arg_) { .f.kind = UV_FD, .f.flags = how, \
	.request_offset = UV_W_WORD(req, member), .f.len = sizeof(u32), \
	.f.arg = UV_ARG(args, struct uv_events *, arg_) }
#define UV_W_FD_NEW(args, req, resp, how, member, arg_) { .f.kind = UV_FD_NEW, .f.flags = how, \
	.response_offset = UV_W_WORD(resp, member), .f.len = sizeof(u32), \
	.f.arg = UV_ARG(args, struct uv_events *, arg_) }

/* What follows the flags is the 0 that stands for absent ones. */
#define UV_A_VALUE(args, kind_, id, arg_, how, ...) { .f.kind = kind_, .attr = id, \
	.min_len = sizeof_field(struct args, arg_), .f.len = sizeof_field(struct args, arg_), \
	.f.arg = offsetof(struct args, arg_), .f.flags = how }
#define UV_A_FLAGS(args, id, bits, arg_, how, ...) { .f.kind = UV_FLAGS, .attr = id, \
	.min_len = sizeof(u32), .f.len = sizeof(u32), .f.allowed = bits, \
	.f.arg = UV_ARG(args, u32, arg_), .f.flags = how }
#define UV_A_BUF(args, id, min, arg_, how) { .f.kind = UV_BUF, .attr = id, .min_len = min, \
	.f.arg = UV_ARG(args, struct uv_buf, arg_), .f.flags = how }
#define UV_A_OBJ(args, kind_, of, access_, id, arg_, how, ...) { .f.kind = kind_, .attr = id, \
	.f.type = of, .f.access = access_, \
	.f.arg = UV_ARG(args, struct ib_uobject *, arg_), .f.flags = how }
#define UV_A_FD(args, kind_, id, arg_, how) { .f.kind = kind_, .attr = id, \
	.f.arg = UV_ARG(args, struct uv_events *, arg_), .f.flags = how }

/*
 * UV_FOR_EACH_FIELD((structures), (macro, (members)), ...) expands to
 * macro(structures, members), ... for up to UV_MAX_FIELDS fields.
 */
#define UV_CAT_(a, b) a##b
#define UV_CAT(a, b) UV_CAT_(a, b)
#define UV_STRIP(...) __VA_ARGS__
#define UV_EXPAND(macro, ...) macro(__VA_ARGS__)
#define UV_FIELD_(structs, macro, members) \
	UV_EXPAND(macro, UV_STRIP structs, UV_STRIP members)
#define UV_FIELD_ARGS(structs, ...) UV_FIELD_(structs, __VA_ARGS__)
#define UV_FIELD(structs, field) UV_FIELD_ARGS(structs, UV_STRIP field)

#define UV_COUNT_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, \
		  _18, _19, _20, n, ...) n
#define UV_COUNT(...) UV_COUNT_(__VA_ARGS__, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, \
				7, 6, 5, 4, 3, 2, 1, 0)
#define UV_FOR_EACH_FIELD(s, ...) UV_CAT(UV_FIELDS_, UV_COUNT(__VA_ARGS__))(s, __VA_ARGS__)
#define UV_FIELDS_1(s, f) UV_FIELD(s, f)
#define UV_FIELDS_2(s, f, ...) UV_FIELD(s, f), UV_FIELDS_1(s, __VA_ARGS__)
#define UV_FIELDS_3(s, f, ...) UV_FIELD(s, f), UV_FIELDS_2(s, __VA_ARGS__)
#define UV_FIELDS_4(s, f, ...) UV_FIELD(s, f), UV_FIELDS_3(s, __VA_ARGS__)
#define UV_FIELDS_5(s, f, ...) UV_FIELD(s, f), UV_FIELDS_4(s, __VA_ARGS__)
#define UV_FIELDS_6(s, f, ...) UV_FIELD(s, f), UV_FIELDS_5(s, __VA_ARGS__)
#define UV_FIELDS_7(s, f, ...) UV_FIELD(s, f), UV_FIELDS_6(s, __VA_ARGS__)
#define UV_FIELDS_8(s, f, ...) UV_FIELD(s, f), UV_FIELDS_7(s, __VA_ARGS__)
#define UV_FIELDS_9(s, f, ...) UV_FIELD(s, f), UV_FIELDS_8(s, __VA_ARGS__)
#define UV_FIELDS_10(s, f, ...) UV_FIELD(s, f), UV_FIELDS_9(s, __VA_ARGS__)
#define UV_FIELDS_11(s, f, ...) UV_FIELD(s, f), UV_FIELDS_10(s, __VA_ARGS__)
#define UV_FIELDS_12(s, f, ...) UV_FIELD(s, f), UV_FIELDS_11(s, __VA_ARGS__)
#define UV_FIELDS_13(s, f, ...) UV_FIELD(s, f), UV_FIELDS_12(s, __VA_ARGS__)
#define UV_FIELDS_14(s, f, ...) UV_FIELD(s, f), UV_FIELDS_13(s, __VA_ARGS__)
#define UV_FIELDS_15(s, f, ...) UV_FIELD(s, f), UV_FIELDS_14(s, __VA_ARGS__)
#define UV_FIELDS_16(s, f, ...) UV_FIELD(s, f), UV_FIELDS_15(s, __VA_ARGS__)
#define UV_FIELDS_17(s, f, ...) UV_FIELD(s, f), UV_FIELDS_16(s, __VA_ARGS__)
#define UV_FIELDS_18(s, f, ...) UV_FIELD(s, f), UV_FIELDS_17(s, __VA_ARGS__)
#define UV_FIELDS_19(s, f, ...) UV_FIELD(s, f), UV_FIELDS_18(s, __VA_ARGS__)
#define UV_FIELDS_20(s, f, ...) UV_FIELD(s, f), UV_FIELDS_19(s, __VA_ARGS__)

#endif
