// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A program that forks while it sends and receives. Rings and doorbells are not mapped in a child. Registered
// memory stays the parent's; where the kernel copies it for the child, writes of the child are not visible in
// the parent, nor the reverse. Children end in several ways.
#include "program.hh"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace prog;

namespace {

constexpr size_t bytes = 4096;
constexpr unsigned rounds = 120, depth = 8;

unsigned mappings() {
    std::ifstream maps("/proc/self/maps");
    unsigned found = 0;
    for (std::string line; std::getline(maps, line);)
        found += line.find("/uverbs") != std::string::npos;
    return found;
}

// Whether a child gets a copy of this memory. Otherwise the mapping has the flag "dc" (do not copy on fork).
bool copied_for_children(const void* memory) {
    const auto wanted = reinterpret_cast<uintptr_t>(memory);
    std::ifstream maps("/proc/self/smaps");
    bool here = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long begin = 0, end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
            here = begin <= wanted && wanted < end;
        else if (here && line.rfind("VmFlags:", 0) == 0)
            return (line + ' ').find(" dc ") == std::string::npos;
    }
    fail("no mapping at %p", memory);
}

enum class Child { exits, execs, writes, destroys_nothing_and_waits };

// In the child: 0 if all checks pass.
int live(Child how, Memory& memory, int parent_alive) {
    if (mappings() != 0)
        return 10;
    char c;
    switch (how) {
    case Child::exits:
        return 0;
    case Child::execs:
        execl("/bin/true", "true", nullptr);
        return 11;
    case Child::writes: // only if the memory was copied
        std::fill(memory.bytes.begin(), memory.bytes.end(), uint8_t{0xee});
        return 0;
    case Child::destroys_nothing_and_waits:
        return read(parent_alive, &c, 1) == 0 ? 0 : 12; // until the parent has closed its end
    }
    return 13;
}

class Children {
public:
    Children() {
        if (pipe(pipe_))
            fail("pipe");
    }
    void make(Child how, Memory& memory) {
        const pid_t pid = fork();
        if (pid < 0)
            fail("fork: %s", std::strerror(errno));
        if (pid == 0) {
            alarm(50);
            close(pipe_[1]);
            _exit(live(how, memory, pipe_[0]));
        }
        made++;
        (how == Child::destroys_nothing_and_waits ? late_ : early_).push_back(pid);
    }
    void reap_early() { reap(early_); }
    void reap_late() {
        close(pipe_[1]);
        reap(late_);
    }
    unsigned made = 0, bad = 0;

private:
    void reap(std::vector<pid_t>& pids) {
        for (const pid_t pid : pids) {
            int status = 0;
            if (waitpid(pid, &status, 0) != pid || status != 0) {
                bad++;
                std::fprintf(stderr, "child: status 0x%x\n", static_cast<unsigned>(status));
            }
        }
        pids.clear();
    }
    int pipe_[2];
    std::vector<pid_t> early_, late_;
};

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "");
    if (const int err = ibv_fork_init())
        fail("ibv_fork_init: %s", std::strerror(err));
    Endpoint end({});
    args.server ? end.await_request(args) : end.resolve(args);
    Memory in(end, depth * bytes, IBV_ACCESS_LOCAL_WRITE), out(end, bytes, IBV_ACCESS_LOCAL_WRITE);
    for (unsigned i = 0; i < depth; i++)
        end.post_recv(i, {in.sge(i * bytes, bytes)});
    if (args.server)
        end.accept();
    else if (!end.connect())
        fail("rejected");
    const unsigned mapped = mappings();
    const bool copied = copied_for_children(in.bytes.data());

    Children children;
    unsigned wrong = 0, sent = 0, received = 0;
    bool alive = false;
    for (unsigned round = 0; round < rounds; round++) {
        // The connection survives running and exited children. Checked before the last message, after which
        // the peer may disconnect.
        if (round == rounds - 1) {
            children.reap_early();
            alive = end.query_state() == IBV_QPS_RTS;
        }
        // Between posting a receive and its arrival, when a page that was copied for the parent would be
        // missed.
        if (round % 10 == 3)
            children.make(static_cast<Child>(round / 10 % 4 == 2 && !copied ? 0 : round / 10 % 4), in);
        const auto seed = static_cast<uint8_t>(round + (args.server ? 100 : 0));
        out.fill(seed); // writes to pages that children share
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        if (end.post_send(wr, {out.sge(0, bytes)}))
            fail("ibv_post_send in round %u", round);
        // The peer may be a round ahead before our send completes.
        while (sent <= round || received <= round) {
            const auto wc = end.next_completion(in_ms(20000));
            if (!wc || wc->status != IBV_WC_SUCCESS)
                fail("round %u: %s", round, wc ? ibv_wc_status_str(wc->status) : "timeout");
            if (wc->opcode != IBV_WC_RECV) {
                sent++;
                continue;
            }
            const auto expected = static_cast<uint8_t>(received++ + (args.server ? 0 : 100));
            wrong += !in.matches(expected, wc->wr_id * bytes, bytes);
            std::memset(&in.bytes[wc->wr_id * bytes], 0, bytes);
            end.post_recv(wc->wr_id, {in.sge(wc->wr_id * bytes, bytes)});
        }
    }
    children.reap_late();
    Json()
        .add("rounds", rounds)
        .add("children", children.made)
        .add("copied", copied)
        .add("mapped", mapped)
        .add("wrong", wrong)
        .add("bad_children", children.bad)
        .add("alive", alive)
        .finish(wrong == 0 && children.bad == 0 && alive && mapped > 0);
}
