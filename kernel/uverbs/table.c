// SPDX-License-Identifier: GPL-2.0
/*
 * The table of commands: collects the rows of all files, and enters them into the index by which
 * write.c and ioctl.c look them up.
 */

#include "core_calls.h"
#include "rows.h"

/*
 * Commands that no device here supports: XRC domains, receive work queues, flows, advice, DMA-BUF.
 * They fail with EOPNOTSUPP instead of as unknown commands.
 */
#define UV_ROW_UNSUPPORTED(name_, command) { .name = name_, command, .flags = UV_UNSUPPORTED }
static struct uv_row uv_unsupported_rows[] __ro_after_init = {
	UV_ROW_UNSUPPORTED("advise_mr", UV_IOCTL_METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR)),
	UV_ROW_UNSUPPORTED("reg_dmabuf_mr",
			   UV_IOCTL_METHOD(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR)),
	UV_ROW_UNSUPPORTED("open_xrcd", UV_WRITE_CMD(IB_USER_VERBS_CMD_OPEN_XRCD)),
	UV_ROW_UNSUPPORTED("close_xrcd", UV_WRITE_CMD(IB_USER_VERBS_CMD_CLOSE_XRCD)),
	UV_ROW_UNSUPPORTED("open_qp", UV_WRITE_CMD(IB_USER_VERBS_CMD_OPEN_QP)),
	UV_ROW_UNSUPPORTED("create_flow", UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_CREATE_FLOW)),
	UV_ROW_UNSUPPORTED("destroy_flow", UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_DESTROY_FLOW)),
	UV_ROW_UNSUPPORTED("create_wq", UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_CREATE_WQ)),
	UV_ROW_UNSUPPORTED("modify_wq", UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_MODIFY_WQ)),
	UV_ROW_UNSUPPORTED("destroy_wq", UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_DESTROY_WQ)),
	UV_ROW_UNSUPPORTED("create_rwq_ind_tbl",
			   UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL)),
	UV_ROW_UNSUPPORTED("destroy_rwq_ind_tbl",
			   UV_WRITE_EX_CMD(IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL)),
	{ }
};

static struct uv_row *const uv_row_lists[] = {
	uv_device_rows, uv_pd_rows, uv_mr_rows, uv_cq_rows, uv_qp_rows, uv_post_rows, uv_srq_rows,
	uv_ah_rows, uv_ioctl_rows, uv_unsupported_rows,
};

struct uv_row *uv_rows[UV_MAX_ROWS] __ro_after_init;
unsigned int uv_row_count __ro_after_init;
struct uv_index uv_index __ro_after_init;

/* Whether the driver has the functions of the command. A removed device (NULL) supports all. */
bool uv_row_driver_has(const struct uv_row *row, const struct ib_device *dev)
{
	int i;

	if (row->flags & UV_UNSUPPORTED)
		return false;
	if (!dev)
		return true;
	if (row->abi == UV_ABI_WRITE && !(dev->uverbs_cmd_mask & BIT_ULL(row->write.command)))
		return false;
	for (i = 0; i < ARRAY_SIZE(row->op); i++)
		if (row->op[i] && !*(void * const *)((const void *)&dev->ops + row->op[i]))
			return false;
	return true;
}

/* Sets dev->supported_rows. */
void uv_device_init_supported(struct uv_device *dev, const struct ib_device *ib_dev)
{
	unsigned int i;

	for (i = 0; i < uv_row_count; i++)
		if (uv_row_driver_has(uv_rows[i], ib_dev))
			__set_bit(i, dev->supported_rows);
}

static const struct uv_field *uv_row_field(const struct uv_row *row, unsigned int i)
{
	return row->abi == UV_ABI_IOCTL ? &row->ioctl.fields[i].f : &row->write.fields[i].f;
}

/* Sets the members that follow from the others. */
static void uv_row_derive(struct uv_row *row)
{
	unsigned int i;

	if (row->abi == UV_ABI_WRITE) {
		row->write.request_min = row->write.request;
		row->write.response_min = row->write.response;
	}
	for (i = 0; i < row->nfields; i++) {
		const struct uv_field *field = uv_row_field(row, i);

		if (row->abi != UV_ABI_IOCTL) {
			if (!uv_field_is_result(field))
				row->write.ninputs = i + 1;
			continue;
		}
		row->ioctl.field_of_attr[row->ioctl.fields[i].attr] = i + 1;
		if (!(field->flags & UV_OPTIONAL))
			row->ioctl.mandatory |= BIT(i);
		if (field->kind == UV_OUT || field->kind == UV_NEW || field->kind == UV_FD_NEW ||
		    (field->kind == UV_BUF && field->flags & UV_BUF_OUT))
			row->ioctl.outputs |= BIT(i);
	}
}

static void uv_row_add(struct uv_row *row, unsigned int number)
{
	uv_row_derive(row);
	row->number = number;
	uv_rows[number] = row;
	if (row->abi == UV_ABI_IOCTL)
		uv_index.ioctl[row->ioctl.object][row->ioctl.method] = row;
	else
		uv_index.write[row->abi == UV_ABI_WRITE_EX][row->write.command] = row;
}

/* That the rows fit into the index, and their fields into the requests, is shown by KUnit. */
void uv_table_init(void)
{
	unsigned int count = 0, i;
	struct uv_row *row;

	for (i = 0; i < ARRAY_SIZE(uv_row_lists); i++)
		for (row = uv_row_lists[i]; row->name; row++)
			uv_row_add(row, count++);
	uv_row_count = count;
}
