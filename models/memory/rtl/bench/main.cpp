// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives the RTL with a trace (format/rem_trace.h) and writes down what it answered and when.
//
//   psm-bench --trace FILE --log FILE --media FILE [--in-flight N] [--pauses] [--gap-every N]
//             [--swap-every N] [--seed N] [--faults FILE] [--sweep] [--reset] [--power-fail]
//             [--coverage FILE]
//
// Requests come in the order of the trace, one a cycle at most and N under way at most. Then the
// flush port (or the power-fail wire); if asked for, faults in cells, a read of every line, and the
// reset port. Nothing here knows what the right answers are.

#include "Vpsm.h"
#include "devices.h"
#include "rem_trace.h"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace
{

// The build gives BENCH_BITS and the numbers of the parameters.
constexpr int kChannels = BENCH_CHANNELS, kSubs = BENCH_SUBS, kRowBits = BENCH_ROW_BITS;
constexpr uint64_t kLatency = 9; // psm.sv: from a request to its channel
constexpr int kIds = 64;
constexpr uint64_t kStuckCycles = 1000000;

struct Request {
    int kind;
    uint64_t line, pause;
};

struct Record {
    uint64_t index = 0;
    int kind = 0;
    uint64_t issue = 0, at = 0, done = 0;
    int channel = 0;
    uint64_t value = 0;
    int contained = 0;
    bool reached = false, answered = false;
};

[[noreturn]] void fail(const std::string &why)
{
    fprintf(stderr, "psm-bench: %s\n", why.c_str());
    exit(2);
}

uint64_t bits_of(const uint32_t *words, uint64_t from, int count)
{
    uint64_t value = 0;
    for (int n = 0; n < count; n++)
        value |= static_cast<uint64_t>((words[(from + n) / 32] >> ((from + n) % 32)) & 1) << n;
    return value;
}

// A port of up to 64 bits is a number, a wider one an array.
const uint32_t *words_of(const QData &port) { return reinterpret_cast<const uint32_t *>(&port); }
template <size_t N> const uint32_t *words_of(const VlWide<N> &port) { return port.data(); }

void put_bytes(uint32_t *words, uint64_t bit, const uint8_t *bytes, int count)
{
    for (int n = 0; n < count; n++, bit += 8) {
        uint32_t &word = words[bit / 32];
        word = (word & ~(0xffu << (bit % 32))) | (static_cast<uint32_t>(bytes[n]) << (bit % 32));
    }
}

void get_bytes(const uint32_t *words, uint64_t bit, uint8_t *bytes, int count)
{
    for (int n = 0; n < count; n++, bit += 8)
        bytes[n] = static_cast<uint8_t>(words[bit / 32] >> (bit % 32));
}

std::vector<Request> read_trace(const std::string &path, uint64_t lines, bool pauses)
{
    FILE *file = fopen(path.c_str(), "rb");
    if (!file)
        fail("cannot read " + path);
    rem_trace_header header;
    if (fread(&header, sizeof header, 1, file) != 1 || header.magic != REM_TRACE_MAGIC ||
        header.version != REM_TRACE_VERSION)
        fail(path + " is no trace");
    std::vector<uint64_t> words(header.count);
    if (fread(words.data(), 8, words.size(), file) != words.size())
        fail(path + " ends too early");
    fclose(file);
    std::vector<Request> requests;
    requests.reserve(words.size());
    uint64_t pause = 0;
    for (uint64_t word : words) {
        Request request;
        request.kind = static_cast<int>(word >> 46) & 3;
        // A trace of a larger memory is folded into this one.
        request.line = (word & ((1ull << 40) - 1)) % lines;
        pause += pauses ? word >> 48 : 0;
        if (request.kind == REM_TRACE_IDLE)
            continue;
        request.pause = pause;
        pause = 0;
        requests.push_back(request);
    }
    return requests;
}

class Bench
{
public:
    Bench(VerilatedContext *context, uint32_t gap_every, uint32_t swap_every, uint64_t seed)
        : top_(std::make_unique<Vpsm>(context)),
          devices_(kChannels, kSubs, BENCH_ALL_LINES, {BENCH_READ, BENCH_PROGRAM}), by_id_(kIds)
    {
        for (int id = 0; id < kIds; id++)
            free_.push_back(id);
        top_->seed = seed;
        top_->gap_every = gap_every;
        top_->swap_every = swap_every;
        top_->rst = 1;
        for (int n = 0; n < 4; n++)
            tick();
        top_->rst = 0;
        idle();
        uint64_t limit = now_ + kStuckCycles;
        while (!top_->ready) {
            tick();
            if (now_ > limit)
                fail("the controller does not get ready");
        }
    }

    // One cycle: the edge, what devices and hosts see of it, and the wires until the next edge.
    void tick()
    {
        top_->clk = 1;
        top_->eval();
        now_++;
        states_.insert(top_->state);
        serve_devices();
        take_answers();
        top_->clk = 0;
        top_->eval();
    }

    void idle() { top_->read_valid = top_->write_valid = 0; }

    // What the wires say just before the edge: who was taken, and who reached a channel.
    void observe()
    {
        top_->eval();
        if (top_->sched_valid) {
            Record &record = records_[by_id_[top_->sched_id]];
            if (record.reached)
                twice_++;
            record.reached = true;
            record.at = now_ - kLatency;
            order_.push_back(by_id_[top_->sched_id]);
        }
        if (top_->flush_begins && calling_ >= 0) {
            records_[calling_].at = now_ - 1;
            order_.push_back(static_cast<size_t>(calling_));
            calling_ = -1;
        }
    }

    void run(const std::vector<Request> &requests, size_t in_flight)
    {
        uint64_t not_before = now_, progress = now_;
        for (size_t next = 0; next < requests.size();) {
            const Request &request = requests[next];
            idle();
            if (next_paused_ != next) {
                not_before = now_ + request.pause;
                next_paused_ = next;
            }
            if (now_ < not_before) {
                observe();
                tick();
                continue;
            }
            if (request.kind == REM_TRACE_FLUSH) {
                flush();
                next++;
                continue;
            }
            bool taken = false;
            if (now_ > progress + kStuckCycles)
                break; // what is lost is counted
            if (under_way() < in_flight && !free_.empty()) {
                offer(request);
                top_->eval();
                taken = request.kind == REM_TRACE_READ ? top_->read_ready : top_->write_ready;
                if (asked_ == 0)
                    asked_ = now_;
                if (taken)
                    begin(request);
            }
            observe();
            tick();
            next += taken;
            progress = taken ? now_ : progress;
        }
        idle();
        drain();
    }

    // Host and controller agree: all that came before is on media.
    void flush()
    {
        drain();
        size_t at = call(REM_TRACE_FLUSH);
        top_->flush_request = 1;
        wait([&] { return top_->flush_done; }, "the flush port");
        top_->flush_request = 0;
        records_[at].done = now_;
        records_[at].answered = true;
        busy_after_flush_ += devices_.busy();
    }

    // The power-fail wire: the controller says when power may go.
    void power_fail()
    {
        size_t at = call(REM_TRACE_FLUSH);
        top_->power_fail = 1;
        wait([&] { return top_->power_safe; }, "the power-fail wire");
        records_[at].done = now_;
        records_[at].answered = true;
        busy_after_flush_ += devices_.busy();
    }

    void reset()
    {
        drain();
        size_t at = call(3);
        top_->reset_request = 1;
        bool wiped = false;
        wait(
            [&] {
                if (top_->wipe && !wiped) {
                    devices_.wipe();
                    wiped = true;
                }
                return top_->reset_done;
            },
            "the reset port");
        top_->reset_request = 0;
        records_[at].done = now_;
        records_[at].answered = true;
    }

    void read_all(uint64_t lines, size_t in_flight)
    {
        std::vector<Request> sweep;
        for (uint64_t line = 0; line < lines; line++)
            sweep.push_back({REM_TRACE_READ, line, 0});
        next_paused_ = SIZE_MAX;
        run(sweep, in_flight);
    }

    void break_cells(const std::string &path)
    {
        FILE *file = fopen(path.c_str(), "r");
        if (!file)
            fail("cannot read " + path);
        unsigned long long place;
        int number, byte, mask;
        while (fscanf(file, "%llu %d %d %d", &place, &number, &byte, &mask) == 4) {
            Piece &piece = devices_.piece(place, number);
            if (byte < 32)
                piece.data[byte] ^= static_cast<uint8_t>(mask);
            else if (byte == 32)
                piece.generation ^= static_cast<uint8_t>(mask);
            else
                piece.check ^= static_cast<uint32_t>(mask) << (8 * (byte - 33));
        }
        fclose(file);
    }

    void write_log(const std::string &path) const
    {
        FILE *file = open(path);
        fprintf(file, "index kind issue at done channel value contained\n");
        for (size_t n : order_) {
            const Record &it = records_[n];
            fprintf(file, "%llu %d %llu %llu %llu %d %llu %d\n", ull(it.index), it.kind,
                    ull(it.issue), ull(it.at), ull(it.done), it.channel, ull(it.value),
                    it.contained);
        }
        fclose(file);
    }

    void write_media(const std::string &path)
    {
        FILE *file = open(path);
        fprintf(file, "place check_0 age_0 data_0 programs_0 check_1 age_1 data_1 programs_1"
                      " check_2 age_2 data_2 programs_2\n");
        for (uint64_t place = 0; place < devices_.lines(); place++) {
            fprintf(file, "%llu", ull(place));
            for (int number = 0; number < kPieces; number++) {
                const Piece &piece = devices_.piece(place, number);
                fprintf(file, " %u %d %llu %llu", piece.check, piece.generation,
                        ull(digest(piece.data.data(), 32)), ull(devices_.programs(place, number)));
            }
            fprintf(file, "\n");
        }
        fclose(file);
    }

    // Figures as one line of JSON.
    void print(double took_s) const
    {
        uint64_t lost = 0, rebuilt = 0, repaired = 0, late = 0;
        for (const auto &record : records_)
            lost += !record.answered;
        for (int channel = 0; channel < kChannels; channel++) {
            rebuilt += top_->rebuilt[channel];
            repaired += top_->repaired[channel];
            late += top_->late[channel];
        }
        std::string states;
        for (int state : states_)
            states += (states.empty() ? "" : ",") + std::to_string(state);
        printf("{\"cycles\":%llu,\"took_s\":%.6f,\"requests\":%zu,\"lost\":%llu,\"twice\":%llu,"
               "\"stray\":%llu,\"device_errors\":%llu,\"device_first\":\"%s\","
               "\"busy_after_flush\":%llu,\"rebuilt\":%llu,\"repaired\":%llu,\"late\":%llu,"
               "\"writes\":%llu,\"moves\":%u,\"swaps\":%u,\"machine_checks\":%u,"
               "\"machine_check_wire\":%llu,\"contained\":%llu,\"start\":%llu,\"gap\":%llu,"
               "\"epoch\":%llu,\"pointer\":%llu,\"journal_next\":%u,\"states\":[%s]}\n",
               ull(now_), took_s, records_.size(), ull(lost), ull(twice_), ull(stray_),
               ull(devices_.refusals.count), devices_.refusals.first.c_str(), ull(busy_after_flush_),
               ull(rebuilt), ull(repaired), ull(late), ull(top_->writes), top_->moves, top_->swaps,
               top_->machine_checks, ull(wire_), ull(contained_), ull(top_->start), ull(top_->gap),
               ull(top_->epoch), ull(top_->pointer), top_->journal_next, states.c_str());
    }

    uint64_t now() const { return now_; }

private:
    static unsigned long long ull(uint64_t value) { return value; }

    static FILE *open(const std::string &path)
    {
        FILE *file = fopen(path.c_str(), "w");
        if (!file)
            fail("cannot write " + path);
        return file;
    }

    size_t under_way() const { return kIds - free_.size(); }

    size_t call(int kind)
    {
        Record record;
        record.index = records_.size();
        record.kind = kind;
        record.issue = now_;
        records_.push_back(record);
        calling_ = static_cast<long>(record.index);
        return record.index;
    }

    template <typename Done> void wait(Done done, const char *what)
    {
        uint64_t limit = now_ + kStuckCycles + 600ull * BENCH_ALL_LINES;
        idle();
        do {
            observe();
            tick();
            if (now_ > limit)
                fail(std::string(what) + " does not answer");
        } while (!done());
    }

    void drain()
    {
        uint64_t limit = now_ + kStuckCycles;
        idle();
        while (under_way() > 0) {
            observe();
            tick();
            if (now_ > limit)
                return; // what is lost is counted
        }
    }

    void offer(const Request &request)
    {
        int id = free_.front();
        if (request.kind == REM_TRACE_READ) {
            top_->read_valid = 1;
            top_->read_id = id;
            top_->read_line = request.line;
        } else {
            top_->write_valid = 1;
            top_->write_id = id;
            top_->write_line = request.line;
            Line line = written(records_.size());
            put_bytes(top_->write_data.data(), 0, line.data(), 64);
        }
    }

    void begin(const Request &request)
    {
        Record record;
        record.index = records_.size();
        record.kind = request.kind;
        record.issue = asked_;
        asked_ = 0;
        by_id_[free_.front()] = records_.size();
        free_.pop_front();
        records_.push_back(record);
    }

    void answer(int id, int channel, bool contained, uint64_t value, int kind)
    {
        Record &record = records_[by_id_[id]];
        if (record.answered || !record.reached || record.kind != kind) {
            stray_++;
            return;
        }
        record.answered = true;
        record.done = now_;
        record.channel = channel;
        record.contained = contained;
        record.value = value;
        contained_ += contained;
        free_.push_back(id);
    }

    void take_answers()
    {
        for (int channel = 0; channel < kChannels; channel++) {
            if ((top_->answer_valid >> channel) & 1) {
                uint8_t bytes[64];
                get_bytes(top_->answer_data.data(), channel * 512ull, bytes, 64);
                bool contained = (top_->answer_contained >> channel) & 1;
                answer(static_cast<int>(top_->answer_id >> (6 * channel)) & 63, channel, contained,
                       contained ? 0 : digest(bytes, 64), REM_TRACE_READ);
            }
            if ((top_->accept_valid >> channel) & 1)
                answer(static_cast<int>(top_->accept_id >> (6 * channel)) & 63, channel, false, 0,
                       REM_TRACE_WRITE);
        }
        wire_ += top_->machine_check;
    }

    void serve_devices()
    {
        constexpr int kEach = kSubs * kPieces;
        devices_.settle(now_);
        for (int w = 0; w < (kChannels * kEach + 31) / 32; w++) {
            uint32_t sense = top_->sense_go[w], program = top_->program_go[w];
            for (int bit = 0; (sense | program) >> bit; bit++) {
                size_t n = 32 * w + bit;
                auto row = [&](const uint32_t *rows) { return bits_of(rows, n * kRowBits, kRowBits); };
                if ((sense >> bit) & 1)
                    devices_[n].sense(now_, row(top_->sense_row.data()), devices_.refusals);
                if ((program >> bit) & 1)
                    devices_[n].program(now_, row(top_->program_row.data()), devices_.refusals);
                if (bit == 31)
                    break;
            }
        }
        for (int channel = 0; channel < kChannels; channel++) {
            if ((top_->load_go >> channel) & 1) {
                size_t sub = (top_->load_sub >> (2 * channel)) & 3;
                size_t number = (top_->load_piece >> (2 * channel)) & 3;
                Piece piece;
                uint8_t raw[37];
                // 296 bits a channel: whole bytes.
                get_bytes(top_->load_data.data(), channel * 296ull, raw, 37);
                memcpy(piece.data.data(), raw, 32);
                piece.generation = raw[32];
                memcpy(&piece.check, raw + 33, 4);
                devices_[channel * kEach + sub * kPieces + number].load(now_, piece,
                                                                        devices_.refusals);
            }
            if ((top_->fetch_go >> channel) & 1) {
                size_t sub = (top_->fetch_sub >> (2 * channel)) & 3;
                for (int number = 0; number < kPieces; number++) {
                    const Piece &piece = devices_[channel * kEach + sub * kPieces + number].sensed();
                    uint8_t raw[37];
                    memcpy(raw, piece.data.data(), 32);
                    raw[32] = piece.generation;
                    memcpy(raw + 33, &piece.check, 4);
                    put_bytes(top_->fetch_data.data(), channel * 888ull + number * 296ull, raw, 37);
                }
            }
            if ((top_->age_go >> channel) & 1) {
                size_t sub = (top_->age_sub >> (2 * channel)) & 3;
                uint64_t row = row_of(channel);
                uint8_t ages[kPieces];
                for (int number = 0; number < kPieces; number++) {
                    const auto &cells = devices_[channel * kEach + sub * kPieces + number].cells;
                    ages[number] = row < cells.size() ? cells[row].generation : 0;
                }
                put_bytes(top_->age_data.data(), channel * 24ull, ages, kPieces);
            }
        }
    }

    uint64_t row_of(int channel) const
    {
        return bits_of(words_of(top_->age_row), static_cast<uint64_t>(channel) * kRowBits, kRowBits);
    }

    std::unique_ptr<Vpsm> top_;
    Devices devices_;
    uint64_t now_ = 0;
    std::vector<Record> records_;
    std::vector<size_t> order_;
    std::vector<size_t> by_id_;
    std::deque<int> free_;
    std::set<int> states_;
    long calling_ = -1;
    uint64_t asked_ = 0;
    size_t next_paused_ = SIZE_MAX;
    uint64_t twice_ = 0, stray_ = 0, busy_after_flush_ = 0, contained_ = 0, wire_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
    std::string trace, log, media, faults, coverage;
    size_t in_flight = 16;
    uint32_t gap_every = 100, swap_every = 0;
    uint64_t seed = 1;
    bool pauses = false, reset = false, power_fail = false, sweep = false;
    VerilatedContext context;
    context.commandArgs(argc, argv);
    for (int n = 1; n < argc; n++) {
        std::string word = argv[n];
        auto value = [&]() -> std::string {
            if (n + 1 == argc)
                fail(word + " needs a value");
            return argv[++n];
        };
        if (word == "--trace")
            trace = value();
        else if (word == "--log")
            log = value();
        else if (word == "--media")
            media = value();
        else if (word == "--faults")
            faults = value();
        else if (word == "--coverage")
            coverage = value();
        else if (word == "--in-flight")
            in_flight = std::stoul(value());
        else if (word == "--gap-every")
            gap_every = static_cast<uint32_t>(std::stoul(value()));
        else if (word == "--swap-every")
            swap_every = static_cast<uint32_t>(std::stoul(value()));
        else if (word == "--seed")
            seed = std::stoull(value());
        else if (word == "--pauses")
            pauses = true;
        else if (word == "--reset")
            reset = true;
        else if (word == "--power-fail")
            power_fail = true;
        else if (word == "--sweep")
            sweep = true;
        else if (word[0] != '+')
            fail("no option " + word);
    }
    const uint64_t lines = 1ull << BENCH_BITS;
    auto requests = read_trace(trace, lines, pauses);
    Bench bench(&context, gap_every, swap_every, seed);
    uint64_t before = bench.now();
    auto begin = std::chrono::steady_clock::now();
    bench.run(requests, in_flight);
    double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    uint64_t cycles = bench.now() - before;
    if (power_fail)
        bench.power_fail();
    else
        bench.flush();
    bench.write_media(media);
    if (!faults.empty())
        bench.break_cells(faults);
    if (sweep && !power_fail)
        bench.read_all(lines, faults.empty() ? in_flight : 1);
    if (reset && !power_fail) {
        bench.reset();
        bench.read_all(lines, in_flight);
    }
    bench.write_log(log);
    bench.print(took_s > 0 ? took_s * bench.now() / (cycles ? cycles : 1) : 0);
#if VM_COVERAGE
    if (!coverage.empty())
        context.coveragep()->write(coverage.c_str());
#endif
    return 0;
}
