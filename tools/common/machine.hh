// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace t3tools {

/// The exit status of a program, and its standard output and error.
struct Outcome {
    int status = 0;
    std::string output;
};

/// The machine as the tools see it: its files, and the programs that they run. Tests use a folder as root and
/// override actions.
class Machine {
public:
    explicit Machine(std::filesystem::path root = "/") : root_(std::move(root)) {}
    virtual ~Machine() = default;
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    /// A file's content without the newline at its end; nothing if it cannot be read.
    std::optional<std::string> read(const std::filesystem::path& path) const;
    /// Names in a folder, sorted; empty if there is none.
    std::vector<std::string> list(const std::filesystem::path& path) const;
    /// The last component of what a symbolic link points to: the name of a driver, a device or a subsystem.
    std::string link_name(const std::filesystem::path& path) const;
    /// The whole target of a symbolic link.
    std::string link_target(const std::filesystem::path& path) const;
    bool exists(const std::filesystem::path& path) const;
    std::filesystem::path path(const std::filesystem::path& absolute) const;

    virtual std::string kernel_release() const;
    virtual bool privileged() const;
    /// Runs a program without a shell; status 127 means that it could not be started.
    virtual Outcome run(const std::vector<std::string>& words) const;
    /// False if it cannot be written.
    virtual bool write(const std::filesystem::path& path, std::string_view content) const;
    virtual bool remove(const std::filesystem::path& path) const;

private:
    std::filesystem::path root_;
};

} // namespace t3tools
