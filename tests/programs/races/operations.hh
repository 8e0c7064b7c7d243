// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The operations that race with each other.
#pragma once

#include "fixture.hh"

#include <functional>
#include <string>
#include <vector>

namespace races {

enum class Place {
    subject, // a thread of the process that has the files open
    outside, // a thread of another process
    ends,    // outside; the subject has exited when it returns
};

struct Operation {
    std::string name;
    Place place;
    bool connections = false;                               // uses the connection manager
    bool second = false;                                    // is the second at each place of every first
    bool mapped = false;                                    // needs a mapping of the device
    std::function<int(Fixture&)> inside = {};               // for Place::subject; 0 or an errno
    std::function<int(const struct Outside&)> outside = {}; // for the others
    bool slow = false;         // may sleep without waiting for the first, such as for an RCU grace period
    bool ends_subject = false; // the process exits in it
    bool closed = false;       // needs all files of the modules closed
    bool bare = false;         // a thread of the subject, which needs none of its files
    bool changes = false;      // changes a state that restore() restores
};

struct Outside {
    const Facts& facts;
    int subject; // its process id
};

// All operations, always in the same order.
const std::vector<Operation>& operations();

// Restores what operations have removed or changed; returns the failure, or an empty string.
std::string restore();

// The folder of the modules, for operations that unload and load them.
extern std::string modules_folder;

} // namespace races
