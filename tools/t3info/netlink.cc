// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3info/netlink.hh"

#include <stdexcept>

#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <rdma/rdma_netlink.h>

namespace t3info {

namespace {

int take(nl_msg* message, void* into) {
    const nlmsghdr* header = nlmsg_hdr(message);
    const auto* data = static_cast<const std::byte*>(nlmsg_data(header));
    static_cast<std::vector<Source::Message>*>(into)->emplace_back(data, data + nlmsg_datalen(header));
    return NL_OK;
}

} // namespace

Netlink::Netlink() : socket_(nl_socket_alloc(), nl_socket_free) {
    if (!socket_)
        throw std::bad_alloc();
    if (nl_connect(socket_.get(), NETLINK_RDMA) < 0)
        throw std::runtime_error("ib_core is not loaded; 'ofedctrl -l' loads the stack");
    // The kernel's replies to a dump need not begin with the number of the request.
    nl_socket_disable_seq_check(socket_.get());
}

std::vector<Source::Message> Netlink::dump(int command, int device) {
    std::vector<Message> messages;
    const std::unique_ptr<nl_msg, void (*)(nl_msg*)> request(
        nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), NLM_F_DUMP), nlmsg_free);
    if (device >= 0)
        nla_put_u32(request.get(), RDMA_NLDEV_ATTR_DEV_INDEX, static_cast<std::uint32_t>(device));
    nl_socket_modify_cb(socket_.get(), NL_CB_VALID, NL_CB_CUSTOM, take, &messages);
    int error = nl_send_auto(socket_.get(), request.get());
    if (error >= 0)
        error = nl_recvmsgs_default(socket_.get());
    if (error < 0)
        throw std::runtime_error(std::string("RDMA netlink: ") + nl_geterror(error));
    return messages;
}

} // namespace t3info
