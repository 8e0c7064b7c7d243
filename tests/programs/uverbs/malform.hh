// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Every way in which a command can be malformed, from the kinds of its fields.
#pragma once

#include "world.hh"

#include <functional>

namespace uv {

using MessageSink = std::function<void(const std::string& what, const Message& message)>;
using IoctlSink = std::function<void(const std::string& what, const Ioctl& call)>;

// What can be wrong whichever door the command comes by: its fields, its lengths, where it and its response
// lie.
void malform_content(const Command& command, const World& here, const World& elsewhere,
                     const MessageSink& sink);
// What can be wrong in the headers of write().
void malform_frame(const Command& command, const World& here, const MessageSink& sink);
void malform_ioctl(const Method& method, const World& here, const World& elsewhere, const IoctlSink& sink);

} // namespace uv
