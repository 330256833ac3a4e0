#include "csv_reader.hpp"

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "tutti/base/error.hpp"
#include "tutti/base/shell_word.hpp"

namespace tutti {

namespace {

/// Tables are read twice, which opening a pipe again would wait for.
const std::string& without_pipes(const std::string& path) {
    std::error_code none;  // what cannot be looked at is said when it is opened
    if (std::filesystem::is_fifo(path, none))
        throw DataError(path + " is a pipe, but tables are read twice", "write it to a file first");
    return path;
}

/// first: the first bytes of the file.
void refuse_other_formats(const std::string& path, std::string_view first) {
    if (first.starts_with("\xff\xfe") || first.starts_with("\xfe\xff"))
        throw DataError(path + " is UTF-16, as some spreadsheets save text",
                        "save it as CSV in UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW");
    if (first.starts_with("\x89HD"))
        throw DataError(path + " is an HDF5 file, not a table",
                        "give the table; what is in the file says: trainer inspect " + shell_word(path));
    if (first.starts_with("\x1f\x8b"))
        throw DataError(path + " is compressed by gzip", "unpack it: gzip -d < OLD > NEW");
    if (first.starts_with("PK\x03"))
        throw DataError(path + " is a ZIP archive, as spreadsheets (.xlsx, .ods) are, too",
                        "unpack it, or save the spreadsheet as CSV in UTF-8");
}

}  // namespace

CsvReader::CsvReader(const std::string& path, char delimiter)
    : path_(path), delimiter_(delimiter), file_(without_pipes(path), std::ios::binary) {
    // Opening a directory succeeds, reading it does not.
    if (!file_ || (file_.peek() == std::ifstream::traits_type::eof() && file_.bad()))
        throw DataError(path + ": cannot be read: " + std::generic_category().message(errno),
                        "check the path given with --csv");
    file_.clear();
    // What spreadsheets write in front of UTF-8.
    std::string mark(3, '\0');
    const bool has_mark = file_.read(mark.data(), 3) && mark == "\xef\xbb\xbf";
    refuse_other_formats(path, mark);
    if (!has_mark) {
        file_.clear();
        file_.seekg(0);
    }
}

void CsvReader::fail(const std::string& problem, const std::string& remedy) const {
    throw DataError(path_ + ":" + std::to_string(line_) + ": " + problem, remedy);
}

bool CsvReader::read_line(std::string& line) {
    if (!std::getline(file_, line)) return false;
    ++lines_read_;
    if (line.find('\0') != std::string::npos)
        throw DataError(
            path_ + ":" + std::to_string(lines_read_) + ": there is a zero byte, as in no text",
            "correct the line; a file in UTF-16 is converted by: iconv -f UTF-16LE -t UTF-8 OLD > "
            "NEW");
    if (line.ends_with('\r')) line.pop_back();
    return true;
}

bool CsvReader::next(std::vector<std::string>& fields) {
    fields.clear();
    std::string line;
    do {
        if (!read_line(line)) {
            if (file_.bad()) fail("reading failed", "check the disk, or copy the file again");
            return false;
        }
    } while (line.empty());
    if (line_ == 0 && line.find('\r') != std::string::npos)
        throw DataError(path_ + ": its lines end with a carriage return alone",
                        "convert it: tr '\\r' '\\n' < OLD > NEW");
    line_ = lines_read_;

    std::string field;
    bool quoted = false, was_quoted = false;
    for (std::size_t i = 0;; ++i) {
        if (i == line.size() && quoted) {
            // A line end inside quotes.
            field += '\n';
            if (!read_line(line)) {
                if (file_.bad()) fail("it cannot be read any further", "check the disk, or copy it again");
                fail("a quote is not closed", "close it, or double it");
            }
            i = static_cast<std::size_t>(-1);
            continue;
        }
        if (i == line.size() || (!quoted && line[i] == delimiter_)) {
            fields.push_back(std::move(field));
            field.clear();
            was_quoted = false;
            if (i == line.size()) return true;
        } else if (line[i] != '"' || (!quoted && !field.empty())) {
            if (was_quoted && !quoted)
                fail("there is text after a closing quote", "double the quotes inside a quoted field");
            field += line[i];
        } else if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
            field += '"';
            ++i;
        } else {
            quoted = !quoted;
            was_quoted = true;
        }
    }
}

}  // namespace tutti
