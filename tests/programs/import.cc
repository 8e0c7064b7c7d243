// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Two processes and one open device: the second one imports the device, a protection domain and a region of
// the first one, which another process sends it as a file and two handles. It makes objects of its own in the
// domain. The objects of the first one work on when it has ended. Needs only the device, no server. Run as
// "client ADDRESS".
#include "program.hh"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace prog;

namespace {

constexpr size_t size = 8192;

struct Objects {
    uint32_t pd, mr, lkey, rkey;
};

union Control {
    char bytes[CMSG_SPACE(sizeof(int))];
    cmsghdr header; // for its alignment
};

void send_objects(int socket, int fd, Objects objects) {
    iovec data{&objects, sizeof(objects)};
    Control control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    if (sendmsg(socket, &message, 0) != sizeof(objects))
        fail("sendmsg: %s", std::strerror(errno));
}

int receive_objects(int socket, Objects& objects) {
    iovec data{&objects, sizeof(objects)};
    Control control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control);
    int fd = -1;
    if (recvmsg(socket, &message, 0) == sizeof(objects))
        if (const cmsghdr* header = CMSG_FIRSTHDR(&message))
            std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return fd;
}

// A QP with rings that this process has mapped.
bool makes_a_qp(ibv_context* context, ibv_pd* pd, const ibv_mr* mr) {
    ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    if (!cq)
        return false;
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {4, 4, 1, 1, 0};
    ibv_qp* qp = ibv_create_qp(pd, &attr);
    bool good = qp;
    if (qp) {
        ibv_qp_attr init{};
        init.qp_state = IBV_QPS_INIT;
        init.port_num = 1;
        ibv_sge sge{reinterpret_cast<uintptr_t>(mr->addr), 16, mr->lkey};
        ibv_recv_wr wr{}, *bad;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        good =
            !ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) &&
            !ibv_post_recv(qp, &wr, &bad) && !ibv_destroy_qp(qp);
    }
    return !ibv_destroy_cq(cq) && good;
}

// The number of the first step that fails, or 0.
int import_all(int socket) {
    Objects objects{};
    const int fd = receive_objects(socket, objects);
    ibv_context* context = ibv_import_device(fd);
    if (!context)
        return 1;
    ibv_device_attr attr;
    if (ibv_query_device(context, &attr) || context->num_comp_vectors < 1)
        return 2;
    ibv_pd* pd = ibv_import_pd(context, objects.pd);
    if (!pd)
        return 3;
    errno = 0;
    if (ibv_import_mr(pd, objects.mr + 1000) || errno != ENOENT)
        return 4;
    ibv_mr* mr = ibv_import_mr(pd, objects.mr);
    if (!mr || mr->lkey != objects.lkey || mr->rkey != objects.rkey || mr->length != size)
        return 5;
    // Its memory is in the other process.
    if (!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0))
        return 6;
    alignas(4096) static char memory[size];
    ibv_mr* own = ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
    if (!own)
        return 7;
    if (!makes_a_qp(context, pd, own))
        return 8;
    if (ibv_dereg_mr(own))
        return 9;
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    return ibv_close_device(context) ? 10 : 0;
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "");
    if (args.server)
        fail("there is no server side");
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets))
        fail("socketpair: %s", std::strerror(errno));
    // It is forked before there is a device to inherit.
    const pid_t other = fork();
    if (other == 0)
        _exit(import_all(sockets[1]));
    Endpoint end({});
    end.resolve(args);
    Memory memory(end, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    send_objects(sockets[0], end.id->verbs->cmd_fd,
                 {end.pd->handle, memory.mr->handle, memory.mr->lkey, memory.mr->rkey});
    int status = 0;
    if (other < 0 || waitpid(other, &status, 0) != other)
        fail("fork: %s", std::strerror(errno));
    const int step = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    // The QP of the first process has its rings, and its region its keys.
    const int posted = end.post_recv(0, {memory.sge(0, 16)});
    const int changed =
        ibv_rereg_mr(memory.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE);
    Json()
        .add("step", step)
        .add("posted", posted)
        .add("changed", changed)
        .finish(!step && !posted && !changed);
}
