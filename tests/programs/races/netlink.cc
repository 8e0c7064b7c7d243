// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "netlink.hh"

#include <cerrno>
#include <cstring>
#include <functional>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <span>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace races {

namespace {

using Bytes = std::vector<uint8_t>;

class Request {
public:
    Request(int command, int flags) {
        header_.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
        header_.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
        header_.nlmsg_seq = 1;
    }

    Request& add(uint16_t type, const void* value, size_t length) {
        const nlattr attribute{static_cast<uint16_t>(NLA_HDRLEN + length), type};
        append(&attribute, sizeof(attribute));
        append(value, length);
        attributes_.resize(NLA_ALIGN(attributes_.size()));
        return *this;
    }
    Request& add(uint16_t type, uint32_t value) { return add(type, &value, sizeof(value)); }

    // Sends the request and calls reply() with the attributes of each reply; returns 0 or an errno.
    int send_and_receive(const std::function<void(std::span<const uint8_t>)>& reply = {}) {
        const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
        if (fd < 0)
            return errno;
        header_.nlmsg_len = static_cast<uint32_t>(NLMSG_HDRLEN + attributes_.size());
        Bytes bytes(header_.nlmsg_len);
        std::memcpy(bytes.data(), &header_, sizeof(header_));
        std::memcpy(&bytes[NLMSG_HDRLEN], attributes_.data(), attributes_.size());
        int ret = send(fd, bytes.data(), bytes.size(), 0) < 0 ? errno : receive(fd, reply);
        close(fd);
        return ret;
    }

private:
    void append(const void* data, size_t length) {
        const auto* bytes = static_cast<const uint8_t*>(data);
        attributes_.insert(attributes_.end(), bytes, bytes + length);
    }
    int receive(int fd, const std::function<void(std::span<const uint8_t>)>& reply) const {
        Bytes buffer(65536);
        for (;;) {
            const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
            if (got < 0)
                return errno;
            size_t at = 0;
            while (at + NLMSG_HDRLEN <= static_cast<size_t>(got)) {
                nlmsghdr message;
                std::memcpy(&message, &buffer[at], sizeof(message));
                if (message.nlmsg_type == NLMSG_DONE)
                    return 0;
                if (message.nlmsg_type == NLMSG_ERROR) {
                    int error;
                    std::memcpy(&error, &buffer[at + NLMSG_HDRLEN], sizeof(error));
                    return -error;
                }
                if (reply)
                    reply({&buffer[at + NLMSG_HDRLEN], message.nlmsg_len - NLMSG_HDRLEN});
                if (!(message.nlmsg_flags & NLM_F_MULTI) && !(header_.nlmsg_flags & NLM_F_ACK))
                    return 0;
                at += NLMSG_ALIGN(message.nlmsg_len);
            }
        }
    }

    nlmsghdr header_{};
    Bytes attributes_;
};

void each(std::span<const uint8_t> attributes,
          const std::function<void(uint16_t type, std::span<const uint8_t> value)>& call) {
    while (attributes.size() >= NLA_HDRLEN) {
        nlattr head;
        std::memcpy(&head, attributes.data(), sizeof(head));
        if (head.nla_len < NLA_HDRLEN || head.nla_len > attributes.size())
            return;
        call(head.nla_type & NLA_TYPE_MASK, attributes.subspan(NLA_HDRLEN, head.nla_len - NLA_HDRLEN));
        attributes = attributes.subspan(std::min<size_t>(NLA_ALIGN(head.nla_len), attributes.size()));
    }
}

template <typename T> T number(std::span<const uint8_t> value) {
    T result{};
    std::memcpy(&result, value.data(), std::min(sizeof(result), value.size()));
    return result;
}

std::string text(std::span<const uint8_t> value) {
    return {reinterpret_cast<const char*>(value.data()),
            strnlen(reinterpret_cast<const char*>(value.data()), value.size())};
}

} // namespace

std::optional<IbDevice> find_device(const std::string& prefix) {
    std::optional<IbDevice> found;
    Request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).send_and_receive([&](std::span<const uint8_t> attributes) {
        IbDevice device{};
        each(attributes, [&](uint16_t type, std::span<const uint8_t> value) {
            if (type == RDMA_NLDEV_ATTR_DEV_INDEX)
                device.index = number<uint32_t>(value);
            else if (type == RDMA_NLDEV_ATTR_DEV_NAME)
                device.name = text(value);
        });
        if (device.name.starts_with(prefix))
            found = device;
    });
    return found;
}

int rename_device(uint32_t index, const std::string& name) {
    return Request(RDMA_NLDEV_CMD_SET, NLM_F_ACK)
        .add(RDMA_NLDEV_ATTR_DEV_INDEX, index)
        .add(RDMA_NLDEV_ATTR_DEV_NAME, name.c_str(), name.size() + 1)
        .send_and_receive();
}

int move_device(uint32_t index, int netns_fd) {
    return Request(RDMA_NLDEV_CMD_SET, NLM_F_ACK)
        .add(RDMA_NLDEV_ATTR_DEV_INDEX, index)
        .add(RDMA_NLDEV_NET_NS_FD, static_cast<uint32_t>(netns_fd))
        .send_and_receive();
}

int set_exclusive_namespaces() {
    const uint8_t shared = 0;
    return Request(RDMA_NLDEV_CMD_SYS_SET, NLM_F_ACK)
        .add(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, &shared, sizeof(shared))
        .send_and_receive();
}

int add_link(const std::string& name, const std::string& type, const std::string& interface) {
    return Request(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK)
        .add(RDMA_NLDEV_ATTR_DEV_NAME, name.c_str(), name.size() + 1)
        .add(RDMA_NLDEV_ATTR_LINK_TYPE, type.c_str(), type.size() + 1)
        .add(RDMA_NLDEV_ATTR_NDEV_NAME, interface.c_str(), interface.size() + 1)
        .send_and_receive();
}

int delete_link(uint32_t index) {
    return Request(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK)
        .add(RDMA_NLDEV_ATTR_DEV_INDEX, index)
        .send_and_receive();
}

std::map<std::string, uint64_t> resources(uint32_t index) {
    std::map<std::string, uint64_t> counts;
    Request(RDMA_NLDEV_CMD_RES_GET, 0)
        .add(RDMA_NLDEV_ATTR_DEV_INDEX, index)
        .send_and_receive([&](std::span<const uint8_t> attributes) {
            each(attributes, [&](uint16_t type, std::span<const uint8_t> table) {
                if (type != RDMA_NLDEV_ATTR_RES_SUMMARY)
                    return;
                each(table, [&](uint16_t, std::span<const uint8_t> entry) {
                    std::string name;
                    uint64_t count = 0;
                    each(entry, [&](uint16_t what, std::span<const uint8_t> value) {
                        if (what == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
                            name = text(value);
                        else if (what == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR)
                            count = number<uint64_t>(value);
                    });
                    counts[name] = count;
                });
            });
        });
    return counts;
}

int dump_resources(uint32_t index, int command) {
    return Request(command, NLM_F_DUMP).add(RDMA_NLDEV_ATTR_DEV_INDEX, index).send_and_receive();
}

} // namespace races
