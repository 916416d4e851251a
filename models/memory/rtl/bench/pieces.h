// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the bench knows of lines and pieces, apart from the RTL and from the model in Rust.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

constexpr int kPieces = 3;
constexpr int kPieceWords = 10; // 32 bytes, generation, check: 296 bits

using Line = std::array<uint8_t, 64>;

struct Piece {
    std::array<uint8_t, 32> data{};
    uint8_t generation = 0;
    uint32_t check = 0;
};

inline uint32_t crc32c(const uint8_t *bytes, size_t size)
{
    static const auto table = [] {
        std::array<uint32_t, 256> made{};
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t crc = n;
            for (int bit = 0; bit < 8; bit++)
                crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
            made[n] = crc;
        }
        return made;
    }();
    uint32_t crc = ~0u;
    for (size_t at = 0; at < size; at++)
        crc = (crc >> 8) ^ table[(crc ^ bytes[at]) & 0xff];
    return ~crc;
}

// A line that was never written: zeros, of generation 0.
inline Piece fresh(uint64_t place, int number)
{
    Piece piece;
    uint8_t message[42] = {};
    message[33] = static_cast<uint8_t>(number);
    memcpy(message + 34, &place, 8);
    piece.check = crc32c(message, sizeof message);
    return piece;
}

inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// What request `number` writes.
inline Line written(uint64_t number)
{
    Line line;
    for (uint64_t word = 0; word < 8; word++) {
        uint64_t value = mix(number * 8 + word + 1);
        memcpy(line.data() + 8 * word, &value, 8);
    }
    return line;
}

// A number for a content (FNV-1a).
inline uint64_t digest(const uint8_t *bytes, size_t size)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t at = 0; at < size; at++)
        sum = (sum ^ bytes[at]) * 0x100000001b3u;
    return sum;
}
