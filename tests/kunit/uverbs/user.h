/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A user process of the dispatcher: memory, open files, and commands of both
 * ABIs. Suites run in kernel threads, which have no user memory. They use that of
 * the process that loads the module, which waits until they have finished.
 */
#ifndef T3_UVERBS_USER_H
#define T3_UVERBS_USER_H

#include <linux/anon_inodes.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>

#include "../user_memory.h"
#include "fake_device.h"
#include "product.h"

/* --- memory ------------------------------------------------------------------- */

/* Two mapped pages and an unmapped one. */
static struct mm_struct *user_mm;
static unsigned long user_base;

#define USER_REQUEST	((void __user *)user_base)
#define USER_RESPONSE	((void __user *)(user_base + PAGE_SIZE))
#define USER_HOLE	((void __user *)(user_base + 2 * PAGE_SIZE))

/* A suite starts in the process that loads the module. */
static inline int user_suite_init(struct kunit_suite *suite)
{
	user_mm = current->mm;
	if (!user_mm)
		return -EINVAL;
	user_base = vm_mmap(NULL, 0, 3 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			    MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (IS_ERR_VALUE(user_base))
		return user_base;
	vm_munmap(user_base + 2 * PAGE_SIZE, PAGE_SIZE);
	/* Present: a call whose memory is not is repeated, and counted twice by the device. */
	if (clear_user(USER_REQUEST, 2 * PAGE_SIZE))
		return -EFAULT;
	mmget(user_mm);
	return product_init();
}

static inline void user_suite_exit(struct kunit_suite *suite)
{
	product_exit();
	flush_delayed_fput();
	vm_munmap(user_base, 2 * PAGE_SIZE);
	mmput(user_mm);
}

/* --- an open device ------------------------------------------------ */

static struct fake_device *fake;
static struct uv_device *uverbs;
static struct file *opened;

/* open() without a path: the inode selects the device. */
static inline struct file *user_open(void)
{
	static const struct file_operations not_yet = { .owner = THIS_MODULE };
	static struct inode inode;
	struct file *filp = anon_inode_getfile("[uverbs]", &not_yet, NULL, O_RDWR);
	int err;

	if (IS_ERR(filp))
		return filp;
	inode.i_cdev = &uverbs->base.cdev;
	atomic_inc(&product_calls);
	err = uv_open(&inode, filp);
	atomic_dec(&product_calls);
	if (err) {
		fput(filp);
		return ERR_PTR(err);
	}
	filp->f_op = &uv_fops;
	return filp;
}

static inline void user_close(struct file *filp)
{
	/* Not fput(): flush_delayed_fput() does not wait for a running worker. */
	__fput_sync(filp);
	flush_delayed_fput();
}

static inline void user_begin(struct kunit *test, bool removable)
{
	user_memory_begin(user_mm);
	atomic_set(&product_uncharged, 0);
	fake = fake_device_new(removable);
	KUNIT_ASSERT_FALSE(test, IS_ERR(fake));
	uverbs = ib_get_client_data(&fake->ib, &uv_client);
	KUNIT_ASSERT_NOT_NULL(test, uverbs);
	opened = user_open();
	KUNIT_ASSERT_FALSE(test, IS_ERR(opened));
}

/* After each test: close has destroyed all objects, and all memory was charged. */
static inline void user_end(struct kunit *test)
{
	if (opened)
		user_close(opened);
	opened = NULL;
	KUNIT_EXPECT_EQ(test, fake_live(fake), 0);
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&product_uncharged), 0,
			    "allocation without GFP_KERNEL_ACCOUNT");
	KUNIT_EXPECT_EQ_MSG(test, atomic_xchg(&product_charges, 0), 0,
			    "charges to the rdma cgroup");
	KUNIT_EXPECT_EQ_MSG(test, atomic_xchg(&product_gids, 0), 0, "references on GIDs");
	fake_device_free(fake);
	rcu_barrier();
	user_memory_end(user_mm);
}

/* Whether debugfs has a file or directory of this name. */
static inline bool in_debugfs(const char *name, struct dentry *parent)
{
	struct dentry *dentry = debugfs_lookup(name, parent);

	dput(dentry);
	return dentry;
}

/* --- write() ------------------------------------------------------------------------ */

/* Address of the next response, NULL: USER_RESPONSE. USER_HOLE cannot be written. */
static void __user *user_response_at;

/* Writes the bytes unchanged. */
static inline ssize_t user_write_raw(struct file *filp, const void *bytes, size_t count)
{
	loff_t pos = 0;
	ssize_t ret;

	if (copy_to_user(USER_REQUEST, bytes, count))
		return -EIO;
	atomic_inc(&product_calls);
	ret = uv_write(filp, USER_REQUEST, count, &pos);
	atomic_dec(&product_calls);
	return ret;
}

struct user_message {
	struct ib_uverbs_cmd_hdr hdr;
	u8 request[512];
} __packed;

/* A plain command. Its request begins with the address of the response if it has one. */
static inline int user_command(struct file *filp, u32 command, const void *request,
			       size_t request_len,
			       void *response, size_t response_len)
{
	struct user_message *message;
	size_t count = sizeof(message->hdr) + request_len;
	u64 at = (u64)(user_response_at ?: USER_RESPONSE);
	ssize_t ret;

	message = kzalloc(sizeof(*message), GFP_KERNEL);
	if (!message)
		return -ENOMEM;
	message->hdr.command = command;
	message->hdr.in_words = count / 4;
	message->hdr.out_words = response_len / 4;
	memcpy(message->request, request, request_len);
	if (response_len)
		memcpy(message->request, &at, sizeof(at));
	ret = user_write_raw(filp, message, count);
	kfree(message);
	if (ret == count && response_len && copy_from_user(response, USER_RESPONSE, response_len))
		ret = -EIO;
	return ret == count ? 0 : ret;
}

#define UV_CMD(filp, command, request, response) \
	user_command(filp, IB_USER_VERBS_CMD_##command, request, sizeof(*(request)), response, \
		 sizeof(*(response)))
#define UV_CMD_NO_RESP(filp, command, request) \
	user_command(filp, IB_USER_VERBS_CMD_##command, request, sizeof(*(request)), NULL, 0)

/* --- ioctl ---------------------------------------------------------------------------- */

#define USER_MAX_ATTRS 30

struct user_ioctl {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[USER_MAX_ATTRS];
};

static inline void user_ioctl_begin(struct user_ioctl *io, u16 object, u16 method)
{
	memset(io, 0, sizeof(*io));
	io->hdr.object_id = object;
	io->hdr.method_id = method;
	io->hdr.driver_id = RDMA_DRIVER_UNKNOWN;
}

static inline struct ib_uverbs_attr *user_attr(struct user_ioctl *io, u16 id, u16 len, u64 data)
{
	struct ib_uverbs_attr *attr = &io->attrs[io->hdr.num_attrs++];

	attr->attr_id = id;
	attr->len = len;
	attr->flags = UVERBS_ATTR_F_MANDATORY;
	attr->data = data;
	return attr;
}

/* Copies the attributes back. */
static inline int user_ioctl(struct file *filp, struct user_ioctl *io)
{
	size_t bytes;
	int err;

	if (!io->hdr.length)
		io->hdr.length = struct_size(&io->hdr, attrs, io->hdr.num_attrs);
	bytes = min_t(size_t, io->hdr.length, sizeof(*io));
	if (copy_to_user(USER_REQUEST, io, bytes))
		return -EIO;
	atomic_inc(&product_calls);
	err = uv_ioctl(filp, RDMA_VERBS_IOCTL, user_base);
	atomic_dec(&product_calls);
	if (copy_from_user(io, USER_REQUEST, bytes))
		return -EIO;
	return err;
}

/* Destroys an object by ioctl with a response of response_len bytes at USER_RESPONSE. */
static inline int user_ioctl_destroy(struct file *filp, u16 object, u16 method, u32 handle,
				     u16 response_len)
{
	struct user_ioctl io;

	user_ioctl_begin(&io, object, method);
	user_attr(&io, 0, 0, handle);
	if (response_len)
		user_attr(&io, 1, response_len, (u64)USER_RESPONSE);
	return user_ioctl(filp, &io);
}

/* --- objects ------------------------------------------------------------------------------ */

static inline int user_get_context(struct file *filp, int *async_fd)
{
	struct ib_uverbs_get_context request = {};
	struct ib_uverbs_get_context_resp response = {};
	int err = UV_CMD(filp, GET_CONTEXT, &request, &response);

	if (async_fd)
		*async_fd = response.async_fd;
	else if (!err)
		close_fd(response.async_fd);
	return err;
}

static inline int user_alloc_pd(struct file *filp, u32 *handle)
{
	struct ib_uverbs_alloc_pd request = {};
	struct ib_uverbs_alloc_pd_resp response = {};
	int err = UV_CMD(filp, ALLOC_PD, &request, &response);

	*handle = response.pd_handle;
	return err;
}

static inline int user_dealloc_pd(struct file *filp, u32 handle)
{
	struct ib_uverbs_dealloc_pd request = { .pd_handle = handle };

	return UV_CMD_NO_RESP(filp, DEALLOC_PD, &request);
}

static inline int user_reg_mr(struct file *filp, u32 pd, u32 *handle)
{
	struct ib_uverbs_reg_mr request = {
		.start = user_base, .hca_va = user_base, .length = 4096, .pd_handle = pd,
		.access_flags = IB_ACCESS_LOCAL_WRITE,
	};
	struct ib_uverbs_reg_mr_resp response = {};
	int err = UV_CMD(filp, REG_MR, &request, &response);

	*handle = response.mr_handle;
	return err;
}

static inline int user_dereg_mr(struct file *filp, u32 handle)
{
	struct ib_uverbs_dereg_mr request = { .mr_handle = handle };

	return UV_CMD_NO_RESP(filp, DEREG_MR, &request);
}

static inline int user_alloc_mw(struct file *filp, u32 pd, u32 *handle)
{
	struct ib_uverbs_alloc_mw request = { .pd_handle = pd, .mw_type = IB_MW_TYPE_1 };
	struct ib_uverbs_alloc_mw_resp response = {};
	int err = UV_CMD(filp, ALLOC_MW, &request, &response);

	*handle = response.mw_handle;
	return err;
}

static inline int user_dealloc_mw(struct file *filp, u32 handle)
{
	struct ib_uverbs_dealloc_mw request = { .mw_handle = handle };

	return UV_CMD_NO_RESP(filp, DEALLOC_MW, &request);
}

static inline int user_create_channel(struct file *filp, int *fd)
{
	struct ib_uverbs_create_comp_channel request = {};
	struct ib_uverbs_create_comp_channel_resp response = {};
	int err = UV_CMD(filp, CREATE_COMP_CHANNEL, &request, &response);

	*fd = response.fd;
	return err;
}

/* user_handle of the objects, which identifies them in events. */
#define USER_COOKIE 0x1122334455667788ULL

static inline int user_create_cq(struct file *filp, int channel, u32 *handle)
{
	struct ib_uverbs_create_cq request = {
		.user_handle = USER_COOKIE, .cqe = 16, .comp_channel = channel,
	};
	struct ib_uverbs_create_cq_resp response = {};
	int err = UV_CMD(filp, CREATE_CQ, &request, &response);

	*handle = response.cq_handle;
	return err;
}

static inline int user_destroy_cq(struct file *filp, u32 handle,
				  struct ib_uverbs_destroy_cq_resp *response)
{
	struct ib_uverbs_destroy_cq request = { .cq_handle = handle };
	struct ib_uverbs_destroy_cq_resp unread = {};

	return UV_CMD(filp, DESTROY_CQ, &request, response ?: &unread);
}

static inline int user_create_qp(struct file *filp, u32 pd, u32 cq, int srq, u32 *handle)
{
	struct ib_uverbs_create_qp request = {
		.user_handle = USER_COOKIE, .pd_handle = pd, .send_cq_handle = cq,
		.recv_cq_handle = cq, .srq_handle = max(srq, 0), .is_srq = srq >= 0,
		.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1,
		.qp_type = IB_QPT_RC,
	};
	struct ib_uverbs_create_qp_resp response = {};
	int err = UV_CMD(filp, CREATE_QP, &request, &response);

	*handle = response.qp_handle;
	return err;
}

static inline int user_destroy_qp(struct file *filp, u32 handle, u32 *reported)
{
	struct ib_uverbs_destroy_qp request = { .qp_handle = handle };
	struct ib_uverbs_destroy_qp_resp response = {};
	int err = UV_CMD(filp, DESTROY_QP, &request, &response);

	if (reported)
		*reported = response.events_reported;
	return err;
}

static inline int user_create_srq(struct file *filp, u32 pd, u32 *handle)
{
	struct ib_uverbs_create_srq request = {
		.user_handle = USER_COOKIE, .pd_handle = pd, .max_wr = 4, .max_sge = 1,
	};
	struct ib_uverbs_create_srq_resp response = {};
	int err = UV_CMD(filp, CREATE_SRQ, &request, &response);

	*handle = response.srq_handle;
	return err;
}

static inline int user_destroy_srq(struct file *filp, u32 handle, u32 *reported)
{
	struct ib_uverbs_destroy_srq request = { .srq_handle = handle };
	struct ib_uverbs_destroy_srq_resp response = {};
	int err = UV_CMD(filp, DESTROY_SRQ, &request, &response);

	if (reported)
		*reported = response.events_reported;
	return err;
}

static inline int user_create_ah(struct file *filp, u32 pd, u32 *handle)
{
	struct ib_uverbs_create_ah request = { .pd_handle = pd, .attr.port_num = 1 };
	struct ib_uverbs_create_ah_resp response = {};
	int err = UV_CMD(filp, CREATE_AH, &request, &response);

	*handle = response.ah_handle;
	return err;
}

static inline int user_destroy_ah(struct file *filp, u32 handle)
{
	struct ib_uverbs_destroy_ah request = { .ah_handle = handle };

	return UV_CMD_NO_RESP(filp, DESTROY_AH, &request);
}

/* --- events ---------------------------------------------------------------------------------- */

/* A read() with O_NONBLOCK. */
static inline ssize_t user_read_event(int fd, void *record, size_t count)
{
	struct file *filp = fget(fd);
	loff_t pos = 0;
	ssize_t ret;

	if (!filp)
		return -EBADF;
	filp->f_flags |= O_NONBLOCK;
	ret = filp->f_op->read(filp, USER_RESPONSE, count, &pos);
	fput(filp);
	if (ret > 0 && copy_from_user(record, USER_RESPONSE, ret))
		ret = -EIO;
	return ret;
}

static inline __poll_t user_poll(int fd)
{
	struct file *filp = fget(fd);
	__poll_t ready;

	if (!filp)
		return EPOLLNVAL;
	ready = filp->f_op->poll(filp, NULL);
	fput(filp);
	return ready;
}

#endif
