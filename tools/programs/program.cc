// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "program.hh"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <endian.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

namespace prog {

void Json::key(const char* k) {
    if (!text_.empty())
        text_ += ", ";
    text_ += '"';
    text_ += k;
    text_ += "\": ";
}

static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += '\\';
        out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return out + '"';
}

Json& Json::add(const char* k, const std::string& text) {
    key(k);
    text_ += quoted(text);
    return *this;
}
Json& Json::add(const char* k, long long number) {
    key(k);
    text_ += std::to_string(number);
    return *this;
}
Json& Json::add(const char* k, bool value) {
    key(k);
    text_ += value ? "true" : "false";
    return *this;
}
Json& Json::add(const char* k, const std::vector<std::string>& list) {
    key(k);
    text_ += '[';
    for (size_t i = 0; i < list.size(); i++)
        text_ += (i ? ", " : "") + quoted(list[i]);
    text_ += ']';
    return *this;
}

void Json::finish(bool ok) const {
    std::printf("{\"ok\": %s%s%s}\n", ok ? "true" : "false", text_.empty() ? "" : ", ", text_.c_str());
    std::fflush(stdout);
    _exit(ok ? 0 : 1); // the kernel releases the objects, which tests that too
}

void fail(const char* fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    std::vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    Json().add("error", text).finish(false);
}

void start_watchdog(unsigned seconds) {
    std::signal(SIGALRM, [](int) {
        static constexpr char text[] =
            "{\"ok\": false, \"error\": \"watchdog: the program did not end in time\"}\n";
        if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0) {
        }
        _exit(1);
    });
    alarm(seconds);
}

Args::Args(int argc, char** argv, const char* usage) {
    std::vector<std::string> words;
    for (int i = 1; i < argc; i++) {
        const std::string word = argv[i];
        (word.rfind("--", 0) == 0 ? options_ : words).push_back(word);
    }
    server = words.size() == 1 && words[0] == "server";
    if (!server && !(words.size() == 2 && words[0] == "client")) {
        std::fprintf(stderr, "usage: %s server | client ADDRESS  [--port=N] [--timeout=S] %s\n", argv[0],
                     usage);
        std::exit(2);
    }
    if (!server)
        address = words[1];
    port = static_cast<uint16_t>(number("port", port));
    start_watchdog(static_cast<unsigned>(number("timeout", 60)));
}

bool Args::has(const std::string& name) const {
    for (const auto& o : options_) {
        if (o == "--" + name || o.rfind("--" + name + "=", 0) == 0)
            return true;
    }
    return false;
}

std::string Args::value(const std::string& name, const std::string& fallback) const {
    const std::string start = "--" + name + "=";
    for (const auto& o : options_) {
        if (o.rfind(start, 0) == 0)
            return o.substr(start.size());
    }
    return fallback;
}

int Args::number(const std::string& name, int fallback) const {
    return std::atoi(value(name, std::to_string(fallback)).c_str());
}

bool wait_readable(int fd, Clock::time_point until) {
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        pollfd p{fd, POLLIN, 0};
        const int n = poll(&p, 1, left > 0 ? static_cast<int>(left) : 0);
        if (n > 0)
            return true;
        if (n == 0)
            return false;
        if (errno != EINTR)
            fail("poll: %s", std::strerror(errno));
    }
}

// ---- Endpoint

Endpoint::~Endpoint() {
    if (id && id->qp)
        rdma_destroy_qp(id);
    if (send_cq)
        ibv_destroy_cq(send_cq);
    if (recv_cq && recv_cq != send_cq)
        ibv_destroy_cq(recv_cq);
    if (channel)
        ibv_destroy_comp_channel(channel);
    if (pd)
        ibv_dealloc_pd(pd);
    if (real_pd_)
        ibv_dealloc_pd(real_pd_);
    if (td_)
        ibv_dealloc_td(td_);
    if (id)
        rdma_destroy_id(id);
    if (listener)
        rdma_destroy_id(listener);
    if (events)
        rdma_destroy_event_channel(events);
}

std::optional<Endpoint::Event> Endpoint::next_event(Clock::time_point until) {
    if (!wait_readable(events->fd, until))
        return std::nullopt;
    rdma_cm_event* e;
    if (rdma_get_cm_event(events, &e))
        fail("rdma_get_cm_event: %s", std::strerror(errno));
    Event out{e->event, e->status, {}};
    if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        id = e->id;
    const auto* data = static_cast<const uint8_t*>(e->param.conn.private_data);
    if (data)
        out.data.assign(data, data + e->param.conn.private_data_len);
    rdma_ack_cm_event(e);
    return out;
}

Endpoint::Event Endpoint::wait_for(rdma_cm_event_type wanted, int ms) {
    const auto e = next_event(in_ms(ms));
    if (!e)
        fail("timeout waiting for %s", rdma_event_str(wanted));
    if (e->type != wanted)
        fail("waiting for %s, got %s (status %d)", rdma_event_str(wanted), rdma_event_str(e->type),
             e->status);
    return *e;
}

bool Endpoint::wait_disconnected(int ms) {
    const auto until = in_ms(ms);
    while (const auto e = next_event(until)) {
        if (e->type == RDMA_CM_EVENT_DISCONNECTED)
            return true;
    }
    return false;
}

void Endpoint::alloc_domains() {
    pd = ibv_alloc_pd(id->verbs);
    if (!pd)
        fail("ibv_alloc_pd: %s", std::strerror(errno));
    if (!caps.extended)
        return;
    ibv_td_init_attr td{};
    td_ = ibv_alloc_td(id->verbs, &td);
    if (!td_)
        fail("ibv_alloc_td: %s", std::strerror(errno));
    ibv_parent_domain_init_attr parent{};
    parent.pd = real_pd_ = pd;
    parent.td = td_;
    pd = ibv_alloc_parent_domain(id->verbs, &parent);
    if (!pd)
        fail("ibv_alloc_parent_domain: %s", std::strerror(errno));
}

ibv_cq* Endpoint::create_cq() {
    if (!caps.extended)
        return ibv_create_cq(id->verbs, caps.cqe, this, channel, 0);
    ibv_cq_init_attr_ex attr{};
    attr.cqe = static_cast<uint32_t>(caps.cqe);
    attr.cq_context = this;
    attr.channel = channel;
    attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attr.parent_domain = pd;
    ibv_cq_ex* cq = ibv_create_cq_ex(id->verbs, &attr);
    return cq ? ibv_cq_ex_to_cq(cq) : nullptr;
}

int Endpoint::create_qp(ibv_qp_init_attr& attr) {
    if (!caps.extended)
        return rdma_create_qp(id, pd, &attr);
    ibv_qp_init_attr_ex ex{};
    ex.qp_context = attr.qp_context;
    ex.send_cq = attr.send_cq;
    ex.recv_cq = attr.recv_cq;
    ex.cap = attr.cap;
    ex.qp_type = attr.qp_type;
    ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    ex.pd = pd;
    ex.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
                        IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
    const int err = rdma_create_qp_ex(id, &ex);
    attr.cap = ex.cap;
    return err;
}

void Endpoint::set_up() {
    alloc_domains();
    if (caps.events) {
        channel = ibv_create_comp_channel(id->verbs);
        if (!channel)
            fail("ibv_create_comp_channel: %s", std::strerror(errno));
    }
    send_cq = create_cq();
    recv_cq = caps.one_cq ? send_cq : create_cq();
    if (!send_cq || !recv_cq)
        fail("ibv_create_cq: %s", std::strerror(errno));
    if (caps.events && (ibv_req_notify_cq(send_cq, 0) || ibv_req_notify_cq(recv_cq, 0)))
        fail("ibv_req_notify_cq failed");
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.cap.max_send_wr = caps.send_wr;
    attr.cap.max_recv_wr = caps.recv_wr;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = caps.sge;
    attr.cap.max_inline_data = caps.inline_data;
    if (create_qp(attr))
        fail("rdma_create_qp: %s", std::strerror(errno));
    caps.send_wr = attr.cap.max_send_wr;
    caps.recv_wr = attr.cap.max_recv_wr;
    caps.inline_data = attr.cap.max_inline_data;
    // Asynchronous events are read with a time limit.
    fcntl(id->verbs->async_fd, F_SETFL, fcntl(id->verbs->async_fd, F_GETFL) | O_NONBLOCK);
}

void Endpoint::resolve(const Args& args) {
    addrinfo hints{}, *addr;
    hints.ai_family = AF_INET;
    if (getaddrinfo(args.address.c_str(), std::to_string(args.port).c_str(), &hints, &addr))
        fail("bad address %s", args.address.c_str());
    events = rdma_create_event_channel();
    if (!events || rdma_create_id(events, &id, this, RDMA_PS_TCP))
        fail("rdma_create_id: %s", std::strerror(errno));
    if (rdma_resolve_addr(id, nullptr, addr->ai_addr, 5000))
        fail("rdma_resolve_addr: %s", std::strerror(errno));
    wait_for(RDMA_CM_EVENT_ADDR_RESOLVED, 10000);
    if (rdma_resolve_route(id, 5000))
        fail("rdma_resolve_route: %s", std::strerror(errno));
    wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED, 10000);
    freeaddrinfo(addr);
    set_up();
}

bool Endpoint::connect(const void* data, size_t length) {
    rdma_conn_param param{};
    param.private_data = data;
    param.private_data_len = static_cast<uint8_t>(length);
    param.initiator_depth = param.responder_resources = 4;
    param.retry_count = 7;
    if (rdma_connect(id, &param)) {
        connect_error = errno;
        return false;
    }
    const auto e = next_event(in_ms(20000));
    if (!e)
        fail("timeout waiting for the reply of the peer");
    peer_data = e->data;
    if (e->type != RDMA_CM_EVENT_ESTABLISHED && e->type != RDMA_CM_EVENT_REJECTED)
        fail("connecting, got %s (status %d)", rdma_event_str(e->type), e->status);
    return e->type == RDMA_CM_EVENT_ESTABLISHED;
}

void Endpoint::await_request(const Args& args) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(args.port);
    events = rdma_create_event_channel();
    if (!events || rdma_create_id(events, &listener, this, RDMA_PS_TCP))
        fail("rdma_create_id: %s", std::strerror(errno));
    if (rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any)))
        fail("rdma_bind_addr: %s", std::strerror(errno));
    if (rdma_listen(listener, 8))
        fail("rdma_listen: %s", std::strerror(errno));
    std::fprintf(stderr, "listening\n"); // tests start the client when they see it
    peer_data = wait_for(RDMA_CM_EVENT_CONNECT_REQUEST, 1000000).data;
    set_up();
}

void Endpoint::accept(const void* data, size_t length) {
    rdma_conn_param param{};
    param.private_data = data;
    param.private_data_len = static_cast<uint8_t>(length);
    param.initiator_depth = param.responder_resources = 4;
    if (rdma_accept(id, &param)) {
        connect_error = errno;
        return;
    }
    wait_for(RDMA_CM_EVENT_ESTABLISHED, 20000);
}

void Endpoint::reject(const void* data, size_t length) {
    if (rdma_reject(id, data, static_cast<uint8_t>(length)))
        connect_error = errno;
}

std::optional<ibv_wc> Endpoint::next_completion(Clock::time_point until) {
    for (;;) {
        ibv_wc wc;
        for (ibv_cq* cq : {send_cq, recv_cq}) {
            const int n = caps.extended ? poll_cq_ex(cq, wc) : ibv_poll_cq(cq, 1, &wc);
            if (n < 0)
                fail("ibv_poll_cq: %d", n);
            if (n)
                return wc;
        }
        if (Clock::now() > until)
            return std::nullopt;
        if (!channel)
            continue;
        if (!wait_readable(channel->fd, until))
            return std::nullopt;
        ibv_cq* cq;
        void* context;
        if (ibv_get_cq_event(channel, &cq, &context))
            fail("ibv_get_cq_event: %s", std::strerror(errno));
        ibv_ack_cq_events(cq, 1);
        if (ibv_req_notify_cq(cq, 0))
            fail("ibv_req_notify_cq failed");
    }
}

ibv_wc Endpoint::expect(ibv_wc_opcode opcode, int ms) {
    const auto wc = next_completion(in_ms(ms));
    if (!wc)
        fail("timeout waiting for a completion of opcode %d", opcode);
    if (wc->status != IBV_WC_SUCCESS)
        fail("request %llu: %s (vendor error 0x%x)", static_cast<unsigned long long>(wc->wr_id),
             ibv_wc_status_str(wc->status), wc->vendor_err);
    if (wc->opcode != opcode)
        fail("waiting for a completion of opcode %d, got %d", opcode, wc->opcode);
    return *wc;
}

std::optional<ibv_event_type> Endpoint::next_async_event(int ms) {
    if (!wait_readable(id->verbs->async_fd, in_ms(ms)))
        return std::nullopt;
    ibv_async_event e;
    if (ibv_get_async_event(id->verbs, &e))
        return std::nullopt;
    ibv_ack_async_event(&e);
    return e.event_type;
}

int Endpoint::post_recv(uint64_t wr_id, const std::vector<ibv_sge>& sg) {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = const_cast<ibv_sge*>(sg.data());
    wr.num_sge = static_cast<int>(sg.size());
    return ibv_post_recv(id->qp, &wr, &bad);
}

int Endpoint::post_send(ibv_send_wr wr, const std::vector<ibv_sge>& sg) {
    ibv_send_wr* bad = nullptr;
    wr.sg_list = const_cast<ibv_sge*>(sg.data());
    wr.num_sge = static_cast<int>(sg.size());
    return caps.extended ? post_send_ex(id->qp, wr) : ibv_post_send(id->qp, &wr, &bad);
}

ibv_qp_state Endpoint::query_state() {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    if (const int err = ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init))
        fail("ibv_query_qp: %s", std::strerror(err));
    return attr.qp_state;
}

// ---- Memory

Memory::Memory(Endpoint& end, size_t size, int access) : bytes(size) {
    mr = ibv_reg_mr(end.pd, bytes.data(), size, access);
    if (!mr)
        fail("ibv_reg_mr of %zu bytes: %s", size, std::strerror(errno));
}

Memory::~Memory() {
    ibv_dereg_mr(mr);
}

ibv_sge Memory::sge(size_t offset, size_t length) const {
    return {reinterpret_cast<uintptr_t>(bytes.data()) + offset, static_cast<uint32_t>(length), mr->lkey};
}

Target Memory::target() const {
    return {htobe64(reinterpret_cast<uintptr_t>(bytes.data())), htobe32(mr->rkey),
            htobe32(static_cast<uint32_t>(bytes.size()))};
}

void Memory::fill(uint8_t seed) {
    for (size_t i = 0; i < bytes.size(); i++)
        bytes[i] = pattern(seed, i);
}

bool Memory::matches(uint8_t seed, size_t offset, size_t length, size_t pattern_from) const {
    for (size_t i = 0; i < length; i++) {
        if (bytes[offset + i] != pattern(seed, pattern_from + i))
            return false;
    }
    return true;
}

Target read_target(const std::vector<uint8_t>& data) {
    Target t;
    if (data.size() < sizeof(t))
        fail("the private data have no target (%zu bytes)", data.size());
    std::memcpy(&t, data.data(), sizeof(t));
    return {be64toh(t.addr), be32toh(t.rkey), be32toh(t.length)};
}

} // namespace prog
