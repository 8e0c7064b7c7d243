// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/vhost/virtqueue.hh"

#include <algorithm>
#include <bit>

namespace t3sim::vhost {
namespace {

template <typename T> bool read(const DmaTable& memory, std::uint64_t address, T& value) {
    return memory.read(address, {reinterpret_cast<std::uint8_t*>(&value), sizeof value});
}

} // namespace

bool Virtqueue::set_size(std::uint32_t size) {
    if (!std::has_single_bit(size) || size > max_queue_size)
        return false;
    size_ = size;
    return true;
}

bool Virtqueue::set_addresses(const VringAddress& addresses) {
    addresses_ = addresses;
    return memory_->word(addresses.available, false) && memory_->word(addresses.used, true);
}

/// Both rings begin with 16 bits of flags and 16 bits of an index.
bool Virtqueue::read_word(std::uint64_t address, std::uint16_t& low, std::uint16_t& high) const {
    const std::uint32_t* word = memory_->word(address, false);
    if (!word)
        return false;
    const std::uint32_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    low = static_cast<std::uint16_t>(value);
    high = static_cast<std::uint16_t>(value >> 16);
    return true;
}

bool Virtqueue::pop(std::optional<Chain>& chain, std::size_t max_request) {
    chain.reset();
    std::uint16_t flags, index;
    if (!read_word(addresses_.available, flags, index))
        return false;
    if (index == next_)
        return true;
    if (static_cast<std::uint16_t>(index - next_) > size_)
        return false;
    Chain found;
    if (!read(*memory_, addresses_.available + 4 + 2 * std::uint64_t{next_ % size_}, found.head))
        return false;
    std::uint16_t at = found.head;
    for (std::uint32_t length = 0;; length++) {
        Descriptor descriptor{};
        if (length == max_chain || at >= size_ ||
            !read(*memory_, addresses_.descriptors + sizeof descriptor * at, descriptor))
            return false;
        if ((descriptor.flags & descriptor_write) != 0) {
            found.response.push_back(descriptor);
            found.response_size += descriptor.length;
        } else {
            const std::size_t old = found.request.size();
            if (!found.response.empty() || old + descriptor.length > max_request)
                return false;
            found.request.resize(old + descriptor.length);
            if (!memory_->read(descriptor.address, MutableBytes(found.request).subspan(old)))
                return false;
        }
        if ((descriptor.flags & descriptor_next) == 0)
            break;
        at = descriptor.next;
    }
    next_++;
    chain = std::move(found);
    return true;
}

bool Virtqueue::push(const Chain& chain, Bytes response) {
    std::size_t written = 0;
    for (const Descriptor& descriptor : chain.response) {
        const std::size_t piece = std::min<std::size_t>(descriptor.length, response.size() - written);
        if (!memory_->write(descriptor.address, response.subspan(written, piece)))
            return false;
        written += piece;
    }
    const Used entry{.id = chain.head, .length = static_cast<std::uint32_t>(written)};
    if (!memory_->write(addresses_.used + 4 + sizeof entry * std::uint64_t{used_ % size_},
                        {reinterpret_cast<const std::uint8_t*>(&entry), sizeof entry}))
        return false;
    std::uint32_t* word = memory_->word(addresses_.used, true);
    if (!word)
        return false;
    used_++;
    // No flags: the guest is to notify of each request.
    __atomic_store_n(word, std::uint32_t{used_} << 16, __ATOMIC_RELEASE);
    return true;
}

bool Virtqueue::wants_interrupt() const {
    std::uint16_t flags = 0, index = 0;
    // The guest enables interrupts and then looks at the used index again.
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return read_word(addresses_.available, flags, index) && (flags & available_no_interrupt) == 0;
}

} // namespace t3sim::vhost
