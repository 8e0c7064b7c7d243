// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Re-registration: the server gives a region more access, then other memory, and the peer uses it each time
// with the new key. The peer's last write must be refused, --last=old_key, less_access or other_domain: no
// byte changes, and the connection ends. A child process cannot change the region of its parent, and a
// protection domain with a region is busy.
#include "program.hh"

#include <cerrno>
#include <cstring>
#include <endian.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace prog;

namespace {

constexpr size_t half = 8192;
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// Messages between the two: a target, or that the last one was used.
class Notes {
public:
    explicit Notes(Endpoint& end)
        : end_(end), in_(end, sizeof(Target), IBV_ACCESS_LOCAL_WRITE),
          out_(end, sizeof(Target), IBV_ACCESS_LOCAL_WRITE) {
        receive();
    }
    void send(const Target& target) {
        std::memcpy(out_.bytes.data(), &target, sizeof(target));
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        if (end_.post_send(wr, {out_.sge(0, sizeof(target))}))
            fail("ibv_post_send");
    }
    Target wait() {
        end_.expect(IBV_WC_RECV, 20000);
        const Target target = read_target({in_.bytes.begin(), in_.bytes.end()});
        receive();
        return target;
    }

private:
    void receive() {
        if (end_.post_recv(0, {in_.sge(0, sizeof(Target))}))
            fail("ibv_post_recv");
    }
    Endpoint& end_;
    Memory in_, out_;
};

Target target_of(const ibv_mr* mr) {
    return {htobe64(reinterpret_cast<uintptr_t>(mr->addr)), htobe32(mr->rkey),
            htobe32(static_cast<uint32_t>(mr->length))};
}

void rereg(ibv_mr* mr, int flags, int access, ibv_pd* pd = nullptr, void* addr = nullptr, size_t length = 0) {
    if (const int err = ibv_rereg_mr(mr, flags, pd, addr, length, access))
        fail("ibv_rereg_mr with flags %d: %d, %s", flags, err, std::strerror(errno));
}

// errno of a child process that re-registers.
int error_in_child(ibv_mr* mr) {
    const pid_t child = fork();
    if (child == 0)
        _exit(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0) ? errno : 0);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        fail("fork: %s", std::strerror(errno));
    return WEXITSTATUS(status);
}

[[noreturn]] void serve(const Args& args, const std::string& last) {
    Endpoint end({});
    end.await_request(args);
    Notes notes(end);
    Memory memory(end, 2 * half, IBV_ACCESS_REMOTE_READ);
    memory.fill(1);
    ibv_pd* const other = ibv_alloc_pd(end.id->verbs);
    if (!other)
        fail("ibv_alloc_pd: %s", std::strerror(errno));
    const Target readable = target_of(memory.mr);
    end.accept(&readable, sizeof(readable));
    notes.wait();
    const int in_child = error_in_child(memory.mr);

    rereg(memory.mr, IBV_REREG_MR_CHANGE_ACCESS, all_access);
    const Target writable = target_of(memory.mr);
    notes.send(writable);
    notes.wait();
    bool intact = memory.matches(2, 0, half) && memory.matches(1, half, half, half);

    rereg(memory.mr, IBV_REREG_MR_CHANGE_TRANSLATION, 0, nullptr, memory.bytes.data() + half, half);
    notes.send(target_of(memory.mr));
    notes.wait();
    intact = intact && memory.matches(2, 0, half) && memory.matches(3, half, half);

    if (last == "less_access")
        rereg(memory.mr, IBV_REREG_MR_CHANGE_ACCESS, IBV_ACCESS_REMOTE_READ);
    else if (last == "other_domain")
        rereg(memory.mr, IBV_REREG_MR_CHANGE_PD, 0, other);
    const bool busy = ibv_dealloc_pd(other) == EBUSY;
    notes.send(last == "old_key" ? writable : target_of(memory.mr));
    const auto event = end.next_async_event(20000);
    const bool gone = end.wait_disconnected(20000);
    intact = intact && memory.matches(2, 0, half) && memory.matches(3, half, half);
    Json()
        .add("in_child", in_child)
        .add("new_key", readable.rkey != writable.rkey)
        .add("memory_intact", intact)
        .add("domain_busy", busy)
        .add("async_event", event ? ibv_event_type_str(*event) : "none")
        .add("disconnected", gone)
        .finish(in_child == EPERM && intact && event && gone && readable.rkey != writable.rkey &&
                busy == (last == "other_domain"));
}

[[noreturn]] void ask(const Args& args) {
    Endpoint end({});
    end.resolve(args);
    Notes notes(end);
    Memory memory(end, half, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE); // iWARP: of a READ's sink
    if (!end.connect())
        fail("rejected");
    const auto access = [&](ibv_wr_opcode opcode, const Target& target) {
        ibv_send_wr wr{};
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = target.addr;
        wr.wr.rdma.rkey = target.rkey;
        if (end.post_send(wr, {memory.sge(0, half)}))
            fail("ibv_post_send");
    };
    access(IBV_WR_RDMA_READ, read_target(end.peer_data));
    end.expect(IBV_WC_RDMA_READ, 20000);
    const bool read = memory.matches(1, 0, half);
    for (const uint8_t seed : {2, 3}) {
        notes.send({});
        const Target target = notes.wait();
        memory.fill(seed);
        access(IBV_WR_RDMA_WRITE, target);
        end.expect(IBV_WC_RDMA_WRITE, 20000);
    }
    notes.send({});
    const Target refused = notes.wait();
    memory.fill(4);
    access(IBV_WR_RDMA_WRITE, refused);
    const bool gone = end.wait_disconnected(20000);
    Json().add("read", read).add("disconnected", gone).finish(read && gone);
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "--last=old_key|less_access|other_domain");
    args.server ? serve(args, args.value("last", "old_key")) : ask(args);
}
