// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The malformed variants of a command, derived from the kinds of its fields.
#pragma once

#include "world.hh"

#include <functional>

namespace uv {

using MessageSink = std::function<void(const std::string& what, const Message& message)>;
using IoctlSink = std::function<void(const std::string& what, const Ioctl& call)>;

// Malformations of write() and INVOKE_WRITE alike: fields, lengths, addresses of request and response.
void malform_content(const Command& command, const World& here, const World& elsewhere,
                     const MessageSink& sink);
// Malformations of the headers of write().
void malform_frame(const Command& command, const World& here, const MessageSink& sink);
void malform_ioctl(const Method& method, const World& here, const World& elsewhere, const IoctlSink& sink);

} // namespace uv
