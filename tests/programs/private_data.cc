// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// --length=N bytes of private data in the request and in the reply, which is an accept or --reject. A length
// that does not fit must be refused by the call, not truncated; then the client reports "refused".
#include "program.hh"

#include <cstring>

using namespace prog;

namespace {

std::vector<uint8_t> pattern(size_t n, uint8_t seed) {
    std::vector<uint8_t> out(n);
    for (size_t i = 0; i < n; i++)
        out[i] = Memory::pattern(seed, i);
    return out;
}

// For some transports the kernel delivers private data in a field of fixed size: only zeroes may follow.
bool begins_with(const std::vector<uint8_t>& got, const std::vector<uint8_t>& want) {
    if (got.size() < want.size() || !std::equal(want.begin(), want.end(), got.begin()))
        return false;
    for (size_t i = want.size(); i < got.size(); i++) {
        if (got[i])
            return false;
    }
    return true;
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "--length=N [--reject]");
    const size_t length = static_cast<size_t>(args.number("length", 0));
    const bool reject = args.has("reject");
    const auto request = pattern(length, 3), answer = pattern(length, 9);
    Endpoint end({});
    Json out;
    out.add("length", length);
    if (args.server) {
        end.await_request(args);
        const bool right = begins_with(end.peer_data, request);
        out.add("got", end.peer_data.size()).add("right", right);
        if (reject)
            end.reject(answer.data(), length);
        else
            end.accept(answer.data(), length);
        out.add("reply_error", end.connect_error);
        const bool gone = reject || end.connect_error || end.wait_disconnected(20000);
        out.finish(right && gone && !end.connect_error);
    }
    end.resolve(args);
    const bool connected = end.connect(request.data(), length);
    if (end.connect_error)
        out.add("refused", end.connect_error).finish(true);
    const bool right = begins_with(end.peer_data, answer);
    out.add("connected", connected).add("got", end.peer_data.size()).add("right", right);
    if (connected)
        rdma_disconnect(end.id);
    out.finish(right && connected != reject);
}
