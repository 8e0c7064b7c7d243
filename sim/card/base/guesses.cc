// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/guesses.hh"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <vector>

namespace t3sim {

namespace {

constexpr Guesses::Row table[] = {
    {1, "RDMA_INIT is acknowledged if receives were posted", "always"},
    {2, "the RTR read and TERMINATE are not acknowledged", "they are"},
    {5, "a responder's sends wait for the RTR message", "they do not"},
    {9, "the flits of RDMA_TERMINATE include MSN and MO", "they do not"},
    {10, "a FIN inside an FPDU gives RDMA_EC_STATUS", "it gives none"},
    {11, "what is in the ring at the close is executed", "it is not"},
    {12, "ABORT messages come twice", "once"},
    {14, "no negative advice is sent", "it is, after four retransmissions"},
    {16, "a receive with a page list index is of form B", "all are of form A"},
    {17, "a receive is checked when it is executed", "when its message comes"},
    {18, "local write suffices for the sink of a read", "remote write is needed"},
    {19, "STag 0 is refused for no bytes too", "it is not checked"},
    {20, "an RQE has code, offset, index, length four times", "its words in the opposite order"},
    {21, "entries of the send side have length 0", "that of the message"},
    {22, "the index of an event is that after its entry", "it is that of its entry"},
    {23, "a full completion queue is overwritten", "it takes no more entries"},
    {24, "arming with entries in the queue gives no event", "it gives one"},
    {25, "a doorbell counts modulo the ids of its page", "only an id of the page counts"},
    {27, "the back door reads big-endian words", "little-endian ones"},
    {28, "a wrong MSN has status 0x18", "0x1b"},
    {29, "one error event for each queue pair", "two"},
    {30, "the two-slot form is refused", "it is executed as one slot"},
    {32, "receives wait behind a send that waits", "they pass it"},
    {33, "more than 64 bytes of inline data are refused", "as many as fit are sent"},
    {34, "the completion flag of a read has no effect", "it gives an entry"},
    {35, "requests from before RDMA_INIT are executed", "they need another doorbell"},
    {36, "a send is complete when TCP has it", "when the peer has acknowledged it"},
    {37, "T_STATE of ESTABLISHED is 3", "4"},
    {39, "the first marker is in front of the first FPDU", "256 bytes after its start"},
    {41, "TIDs that were never used come first", "the last released one does"},
    {43, "byte counts include the FCS", "they do not"},
    {45, "a completed send has the exact opcode", "always that of a plain send"},
    {46, "RDMA_TERMINATE comes before its event", "after it"},
    {49, "each FPDU is one TCP segment", "it is cut into two"},
    {50, "the TCP options are MSS and window scale", "MSS only"},
    {55, "an entry of a page list is read for each transfer",
     "the old one is used until the next memory write"},
    {56, "a bind's page list is that of its region", "any page list and page size"},
    {57, "a window needs its region", "it does not"},
    {58, "a receive of form B stays in its region", "it may use any page list and page size"},
    {59, "a memory write in a queue pair's ring is refused", "it is executed"},
    {60, "an entry can refuse its invalidation by the peer", "it cannot"},
};

std::string joined(auto&& items) {
    std::string out;
    for (const auto& item : items)
        out += (out.empty() ? "" : ", ") + item;
    return out;
}

} // namespace

std::span<const Guesses::Row> Guesses::rows() {
    return table;
}

void Guesses::set(std::string_view text) {
    const auto equals = text.find('=');
    const std::string name(text.substr(0, equals));
    const std::string value(equals == text.npos ? "" : text.substr(equals + 1));
    unsigned number = 0;
    const char* const end = name.data() + name.size();
    const bool is_name =
        name.size() > 1 && name[0] == 'G' && std::from_chars(name.data() + 1, end, number).ptr == end;
    if (!is_name || equals == text.npos)
        throw std::invalid_argument("'" + std::string(text) + "': expected for example G12=other");
    if (std::ranges::none_of(table, [&](const Row& row) { return row.number == number; })) {
        std::vector<std::string> known;
        for (const Row& row : table)
            known.push_back("G" + std::to_string(row.number));
        throw std::invalid_argument("the model has no other answer for " + name + ", only for " +
                                    joined(known));
    }
    if (value != "other" && value != "modelled")
        throw std::invalid_argument("'" + std::string(text) + "': the answers are modelled and other");
    other_[number] = value == "other";
}

std::string Guesses::text() const {
    std::vector<std::string> all;
    for (const Row& row : table)
        if (other(row.number))
            all.push_back("G" + std::to_string(row.number) + "=other");
    return joined(all);
}

} // namespace t3sim
