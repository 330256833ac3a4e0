#include "tutti/base/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <mutex>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/base/standard_error.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti {
namespace {

constexpr const char* clear_line = "\r\x1b[2K";

spdlog::level::level_enum to_spdlog(LogLevel level) {
    switch (level) {
        case LogLevel::debug:
            return spdlog::level::debug;
        case LogLevel::info:
            return spdlog::level::info;
        case LogLevel::warning:
            return spdlog::level::warn;
        case LogLevel::error:
            return spdlog::level::err;
    }
    return spdlog::level::info;
}

}  // namespace

struct Log::State {
    int rank;
    LogLevel level;
    std::string prefix;
    bool shows_progress;

    std::mutex mutex;
    std::unique_ptr<spdlog::sinks::basic_file_sink_st> file;
    struct Line {
        spdlog::log_clock::time_point time;
        LogLevel level;
        std::string text;
    };
    std::deque<Line> before_file;  // printed before it was opened
    bool progress_visible = false;

    void print(LogLevel line_level, std::string_view text) {
        std::string line;
        if (std::exchange(progress_visible, false)) line = clear_line;
        line += prefix;
        if (line_level == LogLevel::warning) line += "warning: ";
        if (line_level == LogLevel::error) line += "error: ";
        line += text;
        line += '\n';
        write_standard_error(line);
    }

    void append(const Line& line) {
        try {
            file->log({line.time, spdlog::source_loc(), spdlog::string_view_t(), to_spdlog(line.level),
                       spdlog::string_view_t(line.text)});
            file->flush();
        } catch (const spdlog::spdlog_ex& error) {
            file.reset();
            print(LogLevel::warning, fmt::format("no more lines go to the log file: {}", error.what()));
        }
    }

    void write(LogLevel line_level, std::string_view text) {
        const std::lock_guard lock(mutex);
        if (line_level < level || (rank != 0 && line_level != LogLevel::error)) return;
        print(line_level, text);
        keep({spdlog::log_clock::now(), line_level, std::string(text)});
    }

    void keep(Line line) {
        if (file) return append(line);
        constexpr std::size_t most = 64;
        before_file.push_back(std::move(line));
        if (before_file.size() > most) before_file.pop_front();
    }
};

Log::Log(int rank, int world_size, std::string host, LogLevel level) : state_(std::make_unique<State>()) {
    state_->rank = rank;
    state_->level = level;
    if (world_size > 1 && rank != 0) state_->prefix = fmt::format("[rank {} on {}] ", rank, host);
    state_->shows_progress = rank == 0 && isatty(STDERR_FILENO) == 1;
}

Log::~Log() {
    // Whatever prints next, the shell's prompt for one, starts on its own line.
    if (state_->progress_visible) write_standard_error("\n");
}

void Log::set_level(LogLevel level) {
    const std::lock_guard lock(state_->mutex);
    state_->level = level;
}

void Log::open_file(const std::string& path) {
    if (state_->rank != 0) return;
    const std::lock_guard lock(state_->mutex);
    try {
        state_->file = std::make_unique<spdlog::sinks::basic_file_sink_st>(path);
        state_->file->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    } catch (const spdlog::spdlog_ex& error) {
        throw RunError(fmt::format("{}: cannot open the log file: {}", path, error.what()),
                       "check that its folder exists and can be written");
    }
    for (const State::Line& line : std::exchange(state_->before_file, {}))
        if (state_->file) state_->append(line);
}

void Log::note(std::string_view text) {
    const std::lock_guard lock(state_->mutex);
    if (state_->rank == 0) state_->keep({spdlog::log_clock::now(), LogLevel::info, std::string(text)});
}

void Log::debug(std::string_view text) {
    state_->write(LogLevel::debug, text);
}
void Log::info(std::string_view text) {
    state_->write(LogLevel::info, text);
}
void Log::warning(std::string_view text) {
    state_->write(LogLevel::warning, text);
}
void Log::error(std::string_view text) {
    state_->write(LogLevel::error, text);
}

void Log::progress(std::string_view text) {
    if (!state_->shows_progress) return;
    const std::lock_guard lock(state_->mutex);
    state_->progress_visible = true;
    write_standard_error(fmt::format("{}{}", clear_line, text));
}

bool Log::shows_progress() const {
    return state_->shows_progress;
}

LogLevel parse_log_level(std::string_view text) {
    static const std::array<std::string, 4> names{"debug", "info", "warning", "error"};
    for (std::size_t i = 0; i < names.size(); ++i)
        if (text == names[i]) return static_cast<LogLevel>(i);
    const std::string near = nearest(text, names);
    throw UsageError(fmt::format("\"{}\" is not a log level", text),
                     near.empty() ? "use debug, info, warning or error"
                                  : fmt::format("did you mean {}? use debug, info, warning or error", near));
}

}  // namespace tutti
