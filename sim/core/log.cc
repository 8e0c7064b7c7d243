// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/log.hh"

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "sim/core/log_sink.hh"

namespace t3sim {
namespace {

struct Registry {
    std::mutex lock;
    std::map<std::string, std::shared_ptr<spdlog::logger>> loggers;
    std::map<std::string, spdlog::level::level_enum> levels;
    spdlog::level::level_enum fallback = spdlog::level::info;

    [[nodiscard]] spdlog::level::level_enum level(const std::string& part) const {
        const auto it = levels.find(part);
        return it == levels.end() ? fallback : it->second;
    }
};

// Never destroyed: static references to loggers are in use until the program ends.
Registry& registry() {
    static auto* r = new Registry;
    return *r;
}

std::optional<spdlog::level::level_enum> parse_level(std::string_view word) {
    const std::string text(word);
    const auto level = spdlog::level::from_str(text);
    if (level == spdlog::level::off && text != "off")
        return std::nullopt;
    return level;
}

} // namespace

spdlog::logger& logger(const std::string& part) {
    Registry& r = registry();
    const std::lock_guard lock(r.lock);
    auto& slot = r.loggers[part];
    if (!slot) {
        // The sink is not the logger's, and never destroyed.
        slot = std::make_shared<spdlog::logger>(part, spdlog::sink_ptr(spdlog::sink_ptr(), &stderr_sink()));
        slot->set_level(r.level(part));
    }
    return *slot;
}

bool set_log_levels(std::string_view text, std::string* wrong) {
    Registry& r = registry();
    const std::lock_guard lock(r.lock);
    auto fallback = r.fallback;
    auto levels = r.levels;
    while (!text.empty()) {
        const auto word = text.substr(0, text.find(','));
        text.remove_prefix(word.size() < text.size() ? word.size() + 1 : word.size());
        const auto equals = word.find('=');
        const auto level = parse_level(equals == word.npos ? word : word.substr(equals + 1));
        if (!level || equals == 0) {
            if (wrong)
                *wrong = word;
            return false;
        }
        if (equals == word.npos)
            fallback = *level;
        else
            levels[std::string(word.substr(0, equals))] = *level;
    }
    r.fallback = fallback;
    r.levels = std::move(levels);
    for (auto& [part, log] : r.loggers)
        log->set_level(r.level(part));
    return true;
}

} // namespace t3sim
