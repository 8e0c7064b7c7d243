// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A 32-bit program that uses the verbs device by write() and ioctl(): t3-uverbs_caller32 DEVICE. It uses no library, so that it can
// be built without 32-bit ones. It prints a JSON object a line, as t3-uverbs_life does.
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>

_Static_assert(sizeof(void*) == 4, "must be built for 32 bits");

enum { SYS_EXIT = 1, SYS_WRITE = 4, SYS_OPEN = 5, SYS_CLOSE = 6, SYS_IOCTL = 54 };
enum { READ_WRITE = 2 };

static int call3(int number, long a, long b, long c) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
    return result;
}

static void print(const char* text) {
    unsigned length = 0;
    while (text[length])
        length++;
    call3(SYS_WRITE, 1, (long)text, (long)length);
}

static void report(const char* what, int result) {
    char digits[12];
    char* digit = digits + sizeof(digits) - 1;
    unsigned left = result < 0 ? -(unsigned)result : (unsigned)result;
    *digit = 0;
    do
        *--digit = (char)('0' + left % 10);
    while (left /= 10);
    if (result < 0)
        *--digit = '-';
    print("{\"case\": \"32 bits: ");
    print(what);
    print("\", \"result\": \"");
    print(digit);
    print("\"}\n");
}

static unsigned long long at(const void* p) {
    return (unsigned long)p;
}

struct attr_list {
    struct ib_uverbs_ioctl_hdr header;
    struct ib_uverbs_attr attrs[4];
};

static int verbs_ioctl(int fd, struct attr_list* list, unsigned object, unsigned method, unsigned count) {
    list->header.length = (unsigned short)(sizeof(list->header) + count * sizeof(list->attrs[0]));
    list->header.object_id = (unsigned short)object;
    list->header.method_id = (unsigned short)method;
    list->header.num_attrs = (unsigned short)count;
    list->header.driver_id = RDMA_DRIVER_CXGB3;
    return call3(SYS_IOCTL, fd, (long)RDMA_VERBS_IOCTL, (long)list);
}

static void set(struct ib_uverbs_attr* attr, unsigned id, unsigned length, unsigned long long data) {
    attr->attr_id = (unsigned short)id;
    attr->len = (unsigned short)length;
    attr->flags = UVERBS_ATTR_F_MANDATORY;
    attr->data = data;
}

static int use(const char* device) {
    const int fd = call3(SYS_OPEN, (long)device, READ_WRITE, 0);
    report("open", fd < 0 ? fd : 0);

    struct attr_list list = {0};
    unsigned vectors = 0;
    unsigned long long support = 0;
    set(&list.attrs[0], UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, sizeof(vectors), at(&vectors));
    set(&list.attrs[1], UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, sizeof(support), at(&support));
    report("get_context by ioctl", verbs_ioctl(fd, &list, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, 2));
    report("completion vectors", (int)vectors);

    struct ib_uverbs_query_port_resp_ex port = {0};
    struct attr_list query = {0};
    set(&query.attrs[0], UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1);
    set(&query.attrs[1], UVERBS_ATTR_QUERY_PORT_RESP, sizeof(port), at(&port));
    report("query_port by ioctl", verbs_ioctl(fd, &query, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, 2));
    report("port state", port.legacy_resp.state);
    query.attrs[1].data = 0xffffffff00001000;
    report("query_port, the response above 4 GB", verbs_ioctl(fd, &query, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, 2));

    struct {
        struct ib_uverbs_cmd_hdr header;
        unsigned long long response;
    } plain = {{IB_USER_VERBS_CMD_QUERY_DEVICE, sizeof(plain) / 4, sizeof(struct ib_uverbs_query_device_resp) / 4}, 0};
    struct ib_uverbs_query_device_resp attributes = {0};
    plain.response = at(&attributes);
    report("query_device by write", call3(SYS_WRITE, fd, (long)&plain, sizeof(plain)));
    report("ports", attributes.phys_port_cnt);

    unsigned pd[2] = {~0U, ~0U}; // handle, and the driver's part
    plain.header = (struct ib_uverbs_cmd_hdr){IB_USER_VERBS_CMD_ALLOC_PD, sizeof(plain) / 4, sizeof(pd) / 4};
    plain.response = at(pd);
    report("alloc_pd by write", call3(SYS_WRITE, fd, (long)&plain, sizeof(plain)));
    struct attr_list destroy = {0};
    set(&destroy.attrs[0], UVERBS_ATTR_DESTROY_PD_HANDLE, 0, pd[0]);
    report("destroy_pd by ioctl", verbs_ioctl(fd, &destroy, UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, 1));
    report("destroy_pd again", verbs_ioctl(fd, &destroy, UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, 1));
    report("another ioctl", call3(SYS_IOCTL, fd, 0x5401, 0));
    report("close", call3(SYS_CLOSE, fd, 0, 0));
    return 0;
}

__attribute__((used)) static void begin(const long* stack) {
    call3(SYS_EXIT, stack[0] == 2 ? use((const char*)stack[2]) : 2, 0, 0);
}

__asm__(".globl _start\n_start:\n\tmov %esp, %eax\n\tand $-16, %esp\n\tsub $12, %esp\n\tpush %eax\n\tcall begin\n");
