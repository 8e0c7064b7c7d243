// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Names of the actions of the state tables, by their bits, for documents, models and messages of tests.
#pragma once

#include <array>

inline constexpr std::array kEpActions{
    "stop-timer", "start-timer",    "qp-peer-close",     "qp-lost",   "send-close",
    "send-abort", "send-abort-rpl", "report-peer-close", "qp-closed", "qp-disconnected",
    "release",    "report-end",     "device-fatal",      "send-open", "send-terminate",
};

inline constexpr std::array kCmActions{
    "unlisten",        "close",
    "abort",           "cancel",
    "reject",          "drop-qp",
    "report-addr",     "report-addr-error",
    "report-route",    "report-request",
    "report-response", "report-established",
    "report-failed",   "report-disconnected",
    "report-removal",  "report-notice",
};
