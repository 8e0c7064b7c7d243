// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Creates objects while allocations in the kernel fail: each creation is tried with its first allocation
// failing, then with its second one, and so on until none fails. The kernel must have fault injection
// (/proc/thread-self/fail-nth). Run as "client ADDRESS"; a listener there is not needed. The result lists, by
// step, how many allocations failed; the test checks for leaks in the kernel.
#include "program.hh"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace prog;

namespace {

std::vector<std::string> failed;

// The N-th allocation of this thread in the kernel fails, once.
class FailNth {
public:
    FailNth() : fd_(open("/proc/thread-self/fail-nth", O_RDWR)) {
        if (fd_ < 0)
            fail("this kernel has no fault injection: %s", std::strerror(errno));
    }
    ~FailNth() { close(fd_); }

    void arm(unsigned n) {
        char text[16];
        const int length = std::snprintf(text, sizeof(text), "%u", n);
        if (pwrite(fd_, text, static_cast<size_t>(length), 0) != length)
            fail("fail-nth: %s", std::strerror(errno));
    }

    // True if the fault has happened.
    bool disarm() {
        char text[16] = {};
        if (pread(fd_, text, sizeof(text) - 1, 0) <= 0)
            fail("fail-nth: %s", std::strerror(errno));
        if (pwrite(fd_, "0", 1, 0) != 1)
            fail("fail-nth: %s", std::strerror(errno));
        return std::atoi(text) == 0;
    }

private:
    int fd_;
};

// The creation of an object: make() returns 0 or an errno, and unmake() destroys the object.
struct Step {
    const char* name;
    std::function<int()> make;
    std::function<void()> unmake;
    int other_error = ENOMEM;
};

int result(const void* object) {
    return object ? 0 : errno;
}

// Fails each allocation in turn; returns how many there are.
unsigned fail_each_allocation(FailNth& faults, const Step& step) {
    constexpr unsigned enough = 400;
    for (unsigned n = 1; n <= enough; n++) {
        faults.arm(n);
        const int error = step.make();
        const bool happened = faults.disarm();
        if (error == 0)
            step.unmake();
        if (!happened) {
            if (error)
                failed.push_back(std::string(step.name) + ": without a fault: " + std::strerror(error));
            return n - 1;
        }
        // A failed allocation returns ENOMEM; libibverbs, when it cannot open a device, tries another path
        // and returns the error of that.
        if (error && error != ENOMEM && error != step.other_error)
            failed.push_back(std::string(step.name) + ", allocation " + std::to_string(n) + ": " +
                             std::strerror(error));
    }
    failed.push_back(std::string(step.name) + ": no end");
    return enough;
}

ibv_qp* make_qp(Endpoint& end) {
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = end.send_cq;
    attr.cap = {16, 16, 2, 2, 0};
    return ibv_create_qp(end.pd, &attr);
}

// The address is resolved later in another context: only allocations of the call itself fail.
int resolve_address(rdma_event_channel* events, rdma_cm_id** id, sockaddr* where) {
    if (rdma_create_id(events, id, nullptr, RDMA_PS_TCP))
        return errno;
    const int error = rdma_resolve_addr(*id, nullptr, where, 1000) ? errno : 0;
    if (error)
        rdma_destroy_id(*id);
    return error;
}

int listen_somewhere(rdma_event_channel* events, rdma_cm_id** id, uint16_t port) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    if (rdma_create_id(events, id, nullptr, RDMA_PS_TCP))
        return errno;
    const int error =
        rdma_bind_addr(*id, reinterpret_cast<sockaddr*>(&any)) || rdma_listen(*id, 4) ? errno : 0;
    if (error)
        rdma_destroy_id(*id);
    return error;
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "");
    if (args.server)
        fail("there is no server side");
    FailNth faults;
    Endpoint end{Caps{}};
    end.resolve(args);
    std::vector<uint8_t> memory(1 << 20);

    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* cq = nullptr;
    ibv_qp* qp = nullptr;
    ibv_mr* mr = nullptr;
    ibv_mw* mw = nullptr;
    rdma_cm_id *listener = nullptr, *resolving = nullptr;
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(args.port);
    there.sin_addr.s_addr = inet_addr(args.address.c_str());
    rdma_event_channel* apart = rdma_create_event_channel(); // its events are not read
    if (!apart)
        fail("rdma_create_event_channel: %s", std::strerror(errno));
    const auto reg = [&](size_t bytes) {
        return result(
            mr = ibv_reg_mr(end.pd, memory.data(), bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    };
    const Step steps[] = {
        {"open", [&] { return result(context = ibv_open_device(end.id->verbs->device)); },
         [&] { ibv_close_device(context); }, ENOENT},
        {"pd", [&] { return result(pd = ibv_alloc_pd(end.id->verbs)); }, [&] { ibv_dealloc_pd(pd); }},
        {"mr-4k", [&] { return reg(4096); }, [&] { ibv_dereg_mr(mr); }},
        {"mr-1m", [&] { return reg(memory.size()); }, [&] { ibv_dereg_mr(mr); }},
        {"mw", [&] { return result(mw = ibv_alloc_mw(end.pd, IBV_MW_TYPE_1)); }, [&] { ibv_dealloc_mw(mw); }},
        {"channel", [&] { return result(channel = ibv_create_comp_channel(end.id->verbs)); },
         [&] { ibv_destroy_comp_channel(channel); }},
        {"cq", [&] { return result(cq = ibv_create_cq(end.id->verbs, 1000, nullptr, nullptr, 0)); },
         [&] { ibv_destroy_cq(cq); }},
        {"qp", [&] { return result(qp = make_qp(end)); }, [&] { ibv_destroy_qp(qp); }},
        {"resolve", [&] { return resolve_address(apart, &resolving, reinterpret_cast<sockaddr*>(&there)); },
         [&] { rdma_destroy_id(resolving); }},
        {"listen", [&] { return listen_somewhere(end.events, &listener, 7999); },
         [&] { rdma_destroy_id(listener); }},
    };
    Json json;
    for (const auto& step : steps)
        json.add(step.name, fail_each_allocation(faults, step));

    // The driver's own context continues a connect later; only allocations of the call itself fail here. An
    // id cannot be used after a failed connect, so each attempt has its own.
    unsigned n = 0;
    for (bool happened = true; happened && n < 100;) {
        Endpoint attempt{Caps{}};
        attempt.resolve(args);
        rdma_conn_param param{};
        faults.arm(++n);
        const int error = rdma_connect(attempt.id, &param) ? errno : 0;
        happened = faults.disarm();
        if (error && error != ENOMEM)
            failed.push_back("connect, allocation " + std::to_string(n) + ": " + std::strerror(error));
        if (!error) {
            const auto event = attempt.next_event(in_ms(20000));
            if (!event || event->type == RDMA_CM_EVENT_ESTABLISHED)
                failed.push_back("connect, allocation " + std::to_string(n) + ": no error reported");
        }
    }
    json.add("connect", n - 1).add("failed", failed).finish(failed.empty());
}
