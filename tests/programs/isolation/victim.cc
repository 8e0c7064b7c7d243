// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "victim.hh"

#include "card.hh"
#include "program.hh"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace isolation {

namespace {

using probe::Connection;
using probe::Peer;

constexpr size_t page = 4096, huge_page = 2 << 20;
constexpr int exchange_limit_ms = 10000;

std::runtime_error error_of(const char* what) {
    return std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

// What the victim's process has.
class Objects {
public:
    Objects(const std::string& address, uint16_t port) : address_(address), port_(port) {
        int count = 0;
        ibv_device** devices = ibv_get_device_list(&count);
        context_ = devices && count ? ibv_open_device(devices[0]) : nullptr;
        pd_ = context_ ? ibv_alloc_pd(context_) : nullptr;
        if (!pd_)
            throw error_of("the victim's device");
        fcntl(context_->async_fd, F_SETFL, O_NONBLOCK);
    }

    void take(Take what, size_t bytes) {
        size_ = what == Take::huge ? huge_page : what == Take::pages ? 4 * bytes : bytes;
        // A huge page needs an aligned address.
        reserved_ = size_ + (what == Take::huge ? huge_page : 0);
        start_ = mmap(nullptr, reserved_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start_ == MAP_FAILED)
            throw error_of("mmap");
        memory_ = static_cast<uint8_t*>(start_);
        if (what == Take::huge) {
            memory_ += -reinterpret_cast<uintptr_t>(start_) % huge_page;
            madvise(memory_, size_, MADV_HUGEPAGE);
        }
        for (size_t i = 0; i < size_; i += secret_length)
            std::memcpy(memory_ + i, secret, secret_length);
        if (what == Take::pages)
            return;
        region_ = ibv_reg_mr(pd_, memory_, what == Take::huge ? page : size_, IBV_ACCESS_LOCAL_WRITE);
        if (!region_)
            throw error_of("ibv_reg_mr of the victim");
    }

    uint64_t changed() {
        uint64_t count = 0;
        for (size_t i = 0; i < size_; i++)
            count += memory_[i] != static_cast<uint8_t>(secret[i % secret_length]);
        if (region_)
            ibv_dereg_mr(region_);
        region_ = nullptr;
        if (start_)
            munmap(start_, reserved_);
        start_ = nullptr;
        size_ = 0;
        return count;
    }

    uint32_t make_qp() {
        peer_ = std::make_unique<Peer>(address_, port_);
        connection_ = std::make_unique<Connection>(*peer_, address_, port_);
        memory_of_messages_ =
            std::make_unique<probe::Region>(connection_->pd(), page, IBV_ACCESS_LOCAL_WRITE);
        return connection_->qp();
    }

    unsigned qp_state() const {
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        if (ibv_query_qp(connection_->id()->qp, &attr, IBV_QP_STATE, &init))
            throw error_of("ibv_query_qp");
        return attr.qp_state;
    }

    // A message of the peer, and one for it.
    void exchange() {
        if (!std::exchange(connected_, true))
            connection_->connect();
        connection_->post_receive(*memory_of_messages_, 64);
        connection_->post_send(memory_of_messages_.get(), 64);
        if (peer_->fpdus(1, exchange_limit_ms).empty())
            throw std::runtime_error("the victim's message did not come");
        probe::Segment message;
        message.msn = ++received_;
        message.payload.assign(64, 0x33);
        peer_->send(message);
        const auto got = connection_->receives().next(exchange_limit_ms);
        if (!got || got->status())
            throw std::runtime_error("the victim did not receive its message");
    }

    uint64_t fatal_events() {
        for (ibv_context* context : {context_, connection_ ? connection_->id()->verbs : nullptr}) {
            ibv_async_event event;
            while (context && prog::wait_readable(context->async_fd, prog::in_ms(200)) &&
                   !ibv_get_async_event(context, &event)) {
                fatal_ += event.event_type == IBV_EVENT_DEVICE_FATAL;
                ibv_ack_async_event(&event);
            }
        }
        return fatal_;
    }

private:
    const std::string address_;
    const uint16_t port_;
    ibv_context* context_;
    ibv_pd* pd_;
    ibv_mr* region_ = nullptr;
    void* start_ = nullptr;
    uint8_t* memory_ = nullptr;
    size_t size_ = 0, reserved_ = 0;
    std::unique_ptr<Peer> peer_;
    std::unique_ptr<Connection> connection_;
    std::unique_ptr<probe::Region> memory_of_messages_;
    bool connected_ = false;
    uint32_t received_ = 0;
    uint64_t fatal_ = 0;
};

std::string execute(Objects& objects, const std::string& line) {
    std::istringstream words(line);
    std::string what;
    unsigned kind = 0;
    size_t bytes = 0;
    words >> what >> kind >> bytes;
    if (what == "take")
        objects.take(static_cast<Take>(kind), bytes);
    else if (what == "changed")
        return std::to_string(objects.changed());
    else if (what == "make_qp")
        return std::to_string(objects.make_qp());
    else if (what == "qp_state")
        return std::to_string(objects.qp_state());
    else if (what == "exchange")
        objects.exchange();
    else if (what == "fatal_events")
        return std::to_string(objects.fatal_events());
    return "";
}

// Messages keep their boundaries.
[[noreturn]] void serve(int socket, const std::string& address, uint16_t port) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    become(victim_uid);
    std::unique_ptr<Objects> objects;
    char line[256];
    for (ssize_t n; (n = recv(socket, line, sizeof(line), 0)) > 0;) {
        std::string reply;
        try {
            if (!objects)
                objects = std::make_unique<Objects>(address, port);
            reply = "ok " + execute(*objects, std::string(line, static_cast<size_t>(n)));
        } catch (const probe::NotObserved& reason) {
            reply = "error " + reason.why;
        } catch (const std::exception& error) {
            reply = std::string("error ") + error.what();
        }
        if (send(socket, reply.data(), reply.size(), 0) < 0)
            break;
    }
    _exit(0); // the kernel releases the objects
}

} // namespace

void become(uid_t user) {
    if (setresgid(user, user, user) || setresuid(user, user, user))
        prog::fail("to user %u: %s", user, std::strerror(errno));
    prctl(PR_SET_DUMPABLE, 1); // /proc/self/maps
}

Victim::Victim(const std::string& address, uint16_t port) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
        prog::fail("socketpair: %s", std::strerror(errno));
    process_ = fork();
    if (process_ < 0)
        prog::fail("fork: %s", std::strerror(errno));
    if (process_ == 0) {
        close(sockets[0]);
        serve(sockets[1], address, port);
    }
    close(sockets[1]);
    socket_ = sockets[0];
}

Victim::~Victim() {
    close(socket_);
    waitpid(process_, nullptr, 0);
}

void Victim::ended() {
    int status = 0;
    waitpid(process_, &status, 0);
    throw VictimEnded{WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

std::string Victim::ask(const std::string& line) {
    char reply[256];
    if (send(socket_, line.data(), line.size(), MSG_NOSIGNAL) < 0)
        ended();
    const ssize_t n = recv(socket_, reply, sizeof(reply), 0);
    if (n <= 0)
        ended();
    const std::string text(reply, static_cast<size_t>(n));
    if (text.rfind("ok ", 0) != 0)
        throw std::runtime_error("the victim: " + text);
    return text.substr(3);
}

void Victim::take(Take what, size_t bytes) {
    ask("take " + std::to_string(static_cast<unsigned>(what)) + " " + std::to_string(bytes));
}
uint64_t Victim::changed() {
    return std::stoull(ask("changed"));
}
uint32_t Victim::make_qp() {
    return static_cast<uint32_t>(std::stoul(ask("make_qp")));
}
unsigned Victim::qp_state() {
    return static_cast<unsigned>(std::stoul(ask("qp_state")));
}
std::string Victim::exchange() {
    try {
        return ask("exchange");
    } catch (const std::exception& error) {
        return error.what();
    }
}
uint64_t Victim::fatal_events() {
    return std::stoull(ask("fatal_events"));
}

} // namespace isolation
