// SPDX-License-Identifier: Apache-2.0 OR MIT
// The devices behind the channels: they hold pieces, take their time, and refuse what a device
// cannot do (a read while it programs, two programmings at once, data that comes too late).
#pragma once

#include "pieces.h"

#include <cstdint>
#include <string>
#include <vector>

struct Times {
    uint64_t read, program;
};

struct Refusals {
    uint64_t count = 0;
    std::string first;

    void add(uint64_t now, const char *why)
    {
        if (count++ == 0)
            first = std::string(why) + " at cycle " + std::to_string(now);
    }
};

// One device. Its rows are those of one piece of a group's lines.
class Device
{
public:
    // Data of a programming must be there this many cycles after it began.
    static constexpr uint64_t kLoadCycles = 64;

    std::vector<Piece> cells;
    std::vector<uint64_t> programs;

    bool programming() const { return programming_; }
    const Piece &sensed() const { return sensed_; }

    // What ends at this cycle; before anything begins.
    void settle(uint64_t now, Refusals &refusals)
    {
        if (programming_ && program_begin_ + times_.program <= now) {
            programming_ = false;
            if (!loaded_)
                refusals.add(now, "programmed without data");
            cells[program_row_] = load_;
            programs[program_row_]++;
        }
        if (sensing_ && read_begin_ + times_.read <= now) {
            sensing_ = false;
            sensed_ = cells[read_row_];
        }
    }

    void sense(uint64_t now, uint64_t row, Refusals &refusals)
    {
        if (programming_ || sensing_)
            refusals.add(now, programming_ ? "read while it programs" : "two reads at once");
        if (row >= cells.size())
            return refusals.add(now, "read of a row that is none");
        sensing_ = true;
        read_row_ = row;
        read_begin_ = now;
    }

    void program(uint64_t now, uint64_t row, Refusals &refusals)
    {
        if (programming_ || sensing_)
            refusals.add(now, sensing_ ? "programmed while it reads" : "two programmings at once");
        if (row >= cells.size())
            return refusals.add(now, "programming of a row that is none");
        programming_ = true;
        loaded_ = false;
        program_row_ = row;
        program_begin_ = now;
    }

    void load(uint64_t now, const Piece &piece, Refusals &refusals)
    {
        if (!programming_ || loaded_)
            return refusals.add(now, "data that nobody waits for");
        if (now > program_begin_ + kLoadCycles)
            refusals.add(now, "data that comes too late");
        loaded_ = true;
        load_ = piece;
    }

    explicit Device(Times times) : times_(times) {}

private:
    Times times_;
    bool sensing_ = false, programming_ = false, loaded_ = false;
    uint64_t read_row_ = 0, read_begin_ = 0, program_row_ = 0, program_begin_ = 0;
    Piece sensed_, load_;
};

// All devices. Device n is (channel, sub, piece).
class Devices
{
public:
    Devices(int channels, int subs, uint64_t lines, Times times)
        : channels_(channels), subs_(subs), lines_(lines)
    {
        uint64_t groups = static_cast<uint64_t>(channels) * subs;
        all_.assign(groups * kPieces, Device(times));
        for (auto &device : all_) {
            device.cells.resize((lines + groups - 1) / groups);
            device.programs.resize(device.cells.size());
        }
        for (uint64_t place = 0; place < lines; place++)
            for (int number = 0; number < kPieces; number++)
                piece(place, number) = fresh(place, number);
    }

    Refusals refusals;

    Device &operator[](size_t n) { return all_[n]; }
    uint64_t lines() const { return lines_; }
    Piece &piece(uint64_t place, int number) { return of(place, number).cells[row(place)]; }
    uint64_t &programs(uint64_t place, int number)
    {
        return of(place, number).programs[row(place)];
    }

    bool busy() const
    {
        for (const auto &device : all_)
            if (device.programming())
                return true;
        return false;
    }

    void settle(uint64_t now)
    {
        for (auto &device : all_)
            device.settle(now, refusals);
    }

    // The reset port: every cell is wiped.
    void wipe()
    {
        for (uint64_t place = 0; place < lines_; place++)
            for (int number = 0; number < kPieces; number++) {
                piece(place, number) = fresh(place, number);
                programs(place, number)++;
            }
    }

private:
    uint64_t row(uint64_t place) const { return place / (channels_ * subs_); }
    Device &of(uint64_t place, int number)
    {
        uint64_t group = place % (channels_ * subs_);
        return all_[((group % channels_) * subs_ + group / channels_) * kPieces + number];
    }

    int channels_, subs_;
    uint64_t lines_;
    std::vector<Device> all_;
};
