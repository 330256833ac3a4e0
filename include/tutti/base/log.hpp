#pragma once
// Log lines to the terminal (rank 0, or every rank for errors) and to the run's log.txt (rank 0).

#include <memory>
#include <string>
#include <string_view>

namespace tutti {

enum class LogLevel { debug, info, warning, error };

/// Where messages go. Lines on the terminal are plain text on standard error with the level only for warnings
/// and errors ("warning: …", "error: …", prefixed with "[rank 3 on node7] " when the world has more than one
/// rank and the rank is not 0); in the file each line has time and level. Thread-safe. A Log is owned by
/// `app` and handed down by reference.
class Log {
  public:
    /// Rank 0 prints `level` and above; other ranks print errors only.
    Log(int rank, int world_size, std::string host, LogLevel level);
    ~Log();
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;

    /// Rank 0 prints `level` and above from now on.
    void set_level(LogLevel level);

    /// From now on also append to `path` (created when missing); lines look like
    /// "2026-11-21T07:30:01.123 info text". No-op on ranks other than 0. Throws RunError when it cannot be
    /// opened. A write that fails later is reported once on the terminal, and the file is given up: the run
    /// goes on. The lines that were printed before, the last 64 of them, stand there, too, with their time.
    void open_file(const std::string& path);
    /// A line of information for the file alone: what the program prints on standard output.
    void note(std::string_view text);

    void debug(std::string_view text);
    void info(std::string_view text);
    void warning(std::string_view text);
    void error(std::string_view text);

    /// A line that replaces itself on a terminal (progress). No-op elsewhere and on ranks other than 0. The
    /// next message clears it first.
    void progress(std::string_view text);
    /// True when progress() shows something: rank 0 and standard error is a terminal.
    bool shows_progress() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// "debug" | "info" | "warning" | "error" -> level. Throws UsageError with the list.
LogLevel parse_log_level(std::string_view text);

}  // namespace tutti
