// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// An end of a wire that is a descriptor of which each read() and write() is a frame.
#pragma once

#include "sim/core/event_loop.hh"
#include "sim/core/fd.hh"
#include "sim/net/link.hh"

namespace t3sim {

class DescriptorEnd : public Endpoint {
public:
    ~DescriptorEnd() override;
    DescriptorEnd(const DescriptorEnd&) = delete;
    DescriptorEnd& operator=(const DescriptorEnd&) = delete;

    /// A frame that the descriptor does not accept is lost.
    void frame_in(Bytes frame) override;
    void resume_send() override;

protected:
    /// Sends received frames to @p link, which must outlive this.
    DescriptorEnd(EventLoop& loop, Link& link) : loop_(loop), link_(link) {}
    /// Begins to read @p fd, which does not block.
    void start(Fd fd);
    /// A read has failed with @p error, or with 0 at an end of file. Whether later ones may succeed.
    virtual bool goes_on(int error) = 0;
    [[nodiscard]] int fd() const { return fd_.get(); }

private:
    void ready();

    EventLoop& loop_;
    Link& link_;
    Fd fd_;
    EventLoop::Watch watch_ = 0;
};

} // namespace t3sim
