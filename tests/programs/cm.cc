// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cm.hh"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <utility>

namespace cm {

void failed(const char* fmt, ...) {
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    std::vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    throw Failure{text};
}

void ok(const char* call, int result) {
    if (result)
        failed("%s: %d, %s", call, result, std::strerror(errno));
}

void fails(const char* call, int result, int error) {
    fails_with_one_of(call, result, {error});
}

void fails_with_one_of(const char* call, int result, std::initializer_list<int> errors) {
    const int actual = errno;
    if (!result)
        failed("%s: succeeded, should be %s", call, std::strerror(*errors.begin()));
    for (const int error : errors) {
        if (result == -1 && actual == error)
            return;
    }
    failed("%s: %d, %s; should be %s", call, result, std::strerror(actual), std::strerror(*errors.begin()));
}

// ---- channels

Channel::Channel() : channel_(rdma_create_event_channel()) {
    if (!channel_)
        failed("rdma_create_event_channel: %s", std::strerror(errno));
}

Channel::~Channel() {
    rdma_destroy_event_channel(channel_);
}

Event event_of(const rdma_cm_event& event) {
    const auto& conn = event.param.conn;
    const auto* data = static_cast<const uint8_t*>(conn.private_data);
    return {event.event,
            event.status,
            event.id,
            event.listen_id,
            data ? std::vector<uint8_t>(data, data + conn.private_data_len) : std::vector<uint8_t>(),
            conn.responder_resources,
            conn.initiator_depth};
}

rdma_cm_event* Channel::take(int ms) {
    rdma_cm_event* event;
    if (!prog::wait_readable(channel_->fd, prog::in_ms(ms)))
        failed("no event after %d ms", ms);
    OK(rdma_get_cm_event(channel_, &event));
    return event;
}

Event Channel::next(int ms) {
    rdma_cm_event* event = take(ms);
    Event copy = event_of(*event);
    OK(rdma_ack_cm_event(event));

    return copy;
}

Event Channel::expect(rdma_cm_event_type type, int status, int ms) {
    Event event = next(ms);
    if (event.type != type || event.status != status)
        failed("%s, %d instead of %s, %d", rdma_event_str(event.type), event.status, rdma_event_str(type),
               status);
    return event;
}

void Channel::expect_nothing(int ms) {
    if (prog::wait_readable(channel_->fd, prog::in_ms(ms)))
        failed("unexpected event %s", rdma_event_str(next().type));
}

// ---- ids

Id::Id(rdma_event_channel* channel, rdma_port_space ps) {
    OK(rdma_create_id(channel, &id_, nullptr, ps));
}

Id::~Id() {
    if (id_)
        destroy();
}

rdma_cm_id* Id::release() {
    return std::exchange(id_, nullptr);
}

int Id::destroy() {
    if (id_->qp)
        rdma_destroy_qp(id_);
    return rdma_destroy_id(release());
}

void Id::create_qp() {
    ibv_qp_init_attr attr = small_qp();
    OK(rdma_create_qp(id_, nullptr, &attr));
}

// ---- parameters

Address::Address(const std::string& numeric, uint16_t port) {
    if (numeric.find(':') == std::string::npos) {
        auto* in4 = reinterpret_cast<sockaddr_in*>(&storage);
        in4->sin_family = AF_INET;
        in4->sin_port = htons(port);
        HOLDS(inet_pton(AF_INET, numeric.c_str(), &in4->sin_addr) == 1);
    } else {
        auto* in6 = reinterpret_cast<sockaddr_in6*>(&storage);
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        HOLDS(inet_pton(AF_INET6, numeric.c_str(), &in6->sin6_addr) == 1);
    }
}

ibv_qp_init_attr small_qp() {
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 4;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    return attr;
}

rdma_conn_param parameters(const std::vector<uint8_t>& data, unsigned depth) {
    rdma_conn_param param{};
    param.private_data = data.empty() ? nullptr : data.data();
    param.private_data_len = static_cast<uint8_t>(data.size());
    param.responder_resources = param.initiator_depth = static_cast<uint8_t>(depth);
    param.retry_count = param.rnr_retry_count = 7;
    return param;
}

std::vector<uint8_t> pattern(size_t length) {
    std::vector<uint8_t> out(length);
    for (size_t i = 0; i < length; i++)
        out[i] = static_cast<uint8_t>(7 * i % 251);
    return out;
}

} // namespace cm
