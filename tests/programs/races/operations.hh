// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The operations that race with each other.
#pragma once

#include "stage.hh"

#include <functional>
#include <string>
#include <vector>

namespace races {

enum class Place {
    subject, // a thread of the process that has the files open
    outside, // a thread of another process
    ends,    // outside, and the subject is gone when it returns
};

struct Operation {
    std::string name;
    Place place;
    bool connections = false;                               // is about the connection manager
    bool second = false;                                    // is second at each place of every first
    bool mapped = false;                                    // needs a mapping of the device
    std::function<int(Stage&)> inside = {};                 // for Place::subject; 0 or an errno
    std::function<int(const struct Outside&)> outside = {}; // for the others
    bool patient = false;      // may sleep for reasons of its own, such as a grace period of RCU
    bool ends_subject = false; // the process does not come back from it
    bool closed = false;       // needs that no file of the modules is open
    bool bare = false;         // a thread of the subject, which needs none of its files
    bool changes = false;      // something that restore() brings back
};

struct Outside {
    Hook& hook;
    const Facts& facts;
    int subject; // its process id
};

// All of them, in an order that never changes.
const std::vector<Operation>& operations();

// Brings back what operations have taken away or changed; returns what could not be, or nothing.
std::string restore(Hook& hook);

// The folder with the modules, for those that take them out and put them back.
extern std::string modules_folder;

} // namespace races
