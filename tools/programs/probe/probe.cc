// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Which answer to an open question (docs/hw/open-questions.md) holds for the card of the client. The server
// is the other end, and needs no RDMA device. One line of JSON for each point:
//
//   {"point": "G12", "result": "as modelled", "answer": "ABORT messages come twice"}
//
// The result is "as modelled", "other", or "not observed", then with the reason as the answer. Options:
// --points=G12,G21 for some, --list for their names.
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "helpers.hh"
#include "points.hh"
#include "program.hh"

using namespace probe;

namespace {

constexpr int probe_limit_s = 30;
constexpr int everything_limit_s = 600;
constexpr int questions_limit_s = 400; // without --seconds; no probe begins later

struct Point {
    unsigned number;
    Answer (*ask)(Case&);
};
constexpr Point points[] = {
    {1, acknowledgement_of_init},
    {2, acknowledgement_of_others},
    {5, hold_of_the_responder},
    {9, length_of_terminate},
    {10, end_in_an_fpdu},
    {11, ring_at_the_close},
    {14, negative_advice},
    {16, form_of_a_receive},
    {17, check_of_a_receive},
    {18, right_of_a_read_sink},
    {19, stag_zero},
    {20, layout_of_an_rqe},
    {21, length_in_entries},
    {22, words_of_an_event},
    {23, full_completion_queue},
    {24, arming_with_an_entry},
    {25, doorbell_page},
    {27, order_of_the_back_door},
    {28, error_statuses},
    {29, events_of_an_error},
    {32, receive_behind_a_send},
    {34, completion_and_fence_of_reads},
    {35, requests_before_init},
    {36, time_of_a_completion},
    {37, number_of_a_state},
    {39, origin_of_markers},
    {41, reuse_of_tids},
    {43, octets_of_a_frame},
    {45, opcode_of_a_send},
    {46, order_of_terminate},
    {49, segment_of_an_fpdu},
    {50, options_of_tcp},
    {56, page_list_of_a_bind},
    {57, region_of_a_window},
    {58, region_of_a_receive},
    {60, invalidation_by_the_peer},
    // Requests that no driver makes, so they come last.
    {30, two_slots},
    {33, long_inline},
    {59, memory_write_in_a_ring},
    {12, copies_of_an_abort}, // our driver needs the second copy; without it RDMA is down afterwards
};

std::string name(const Point& point) {
    return "G" + std::to_string(point.number);
}

void print(const Point& point, const char* result, const std::string& answer) {
    std::string escaped;
    for (const char letter : answer) {
        if (letter == '"' || letter == '\\')
            escaped += '\\';
        escaped += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    }
    std::printf("{\"point\": \"%s\", \"result\": \"%s\", \"answer\": \"%s\"}\n", name(point).c_str(), result,
                escaped.c_str());
    std::fflush(stdout);
}

// In a process of its own, which may hang or crash.
void ask(const Point& point, const std::string& address, uint16_t port) {
    void* const shared =
        mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        prog::fail("mmap: %s", std::strerror(errno));
    bool& answered = *static_cast<bool*>(shared);
    const auto answer = [&](const char* result, const std::string& what) {
        if (!std::exchange(answered, true))
            print(point, result, what);
    };
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(probe_limit_s);
        try {
            Peer peer(address, port);
            const auto report = [&](const Answer& got) {
                answer(got.as_modelled ? "as modelled" : "other", got.text);
                return got;
            };
            Case c{peer, address, port, report};
            report(point.ask(c));
        } catch (const NotObserved& reason) {
            answer("not observed", reason.why);
        } catch (const std::exception& error) {
            answer("not observed", error.what());
        }
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    answer("not observed", WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "the probe did not end"
                                                                              : "the probe crashed");
    munmap(shared, sizeof(bool));
}

std::set<std::string> split(const std::string& list) {
    std::set<std::string> out;
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ',');)
        out.insert(part);
    return out;
}

} // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::string(argv[1]) == "--list") {
        for (const auto& point : points)
            std::printf("%s\n", name(point).c_str());
        return 0;
    }
    const prog::Args args(argc, argv, "[--points=G12,G21] [--seconds=N] | --list");
    prog::start_watchdog(everything_limit_s);
    if (args.server) {
        if (!serve(args.port))
            prog::fail("the port %u is in use", args.port + 1);
        prog::Json().finish(true);
    }
    const auto wanted = split(args.value("points", ""));
    const int seconds = args.number("seconds", questions_limit_s);
    const auto until = prog::in_ms(1000 * seconds);
    for (const auto& point : points) {
        if (!wanted.empty() && !wanted.contains(name(point)))
            continue;
        if (prog::Clock::now() < until)
            ask(point, args.address, args.port);
        else
            print(point, "not observed", text("the %d s for all questions were over", seconds));
    }
    try {
        Peer(args.address, args.port).quit();
    } catch (const std::exception& error) {
        prog::fail("%s", error.what());
    }
    prog::Json().finish(true);
}
