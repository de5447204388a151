#include "lightmill/ladder/run/worker.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "lightmill/base/error.hpp"
#include "lightmill/ladder/clock/clock.hpp"
#include "lightmill/ladder/run/child.hpp"

namespace lightmill::ladder {
namespace {

constexpr char k_separator = '\x1f';

std::string encoded(const Setting& setting) {
    std::string text = setting.name + "=";
    if (const auto* list = std::get_if<std::vector<std::string>>(&setting.value)) {
        text += "l:";
        for (const auto& part : *list) text += part + k_separator;
    } else if (const auto* words = std::get_if<std::string>(&setting.value)) {
        text += "s:" + *words;
    } else if (const auto* flag = std::get_if<bool>(&setting.value)) {
        text += *flag ? "b:1" : "b:0";
    } else if (const auto* whole = std::get_if<std::int64_t>(&setting.value)) {
        text += fmt::format("i:{}", *whole);
    } else {
        text += fmt::format("d:{:a}", std::get<double>(setting.value));
    }
    return text;
}

Setting decoded(const std::string& text) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || text.size() < equals + 3 || text[equals + 2] != ':')
        throw OptionError("ladder-worker", text, "arguments that `lightmill ladder run` makes");
    Setting setting{text.substr(0, equals), {}, 0};
    const std::string value = text.substr(equals + 3);
    switch (text[equals + 1]) {
        case 'b':
            setting.value = value == "1";
            break;
        case 's':
            setting.value = value;
            break;
        case 'i': {
            std::int64_t whole = 0;
            std::from_chars(value.data(), value.data() + value.size(), whole);
            setting.value = whole;
            break;
        }
        case 'd':
            setting.value = std::stod(value);
            break;
        default: {
            std::vector<std::string> list;
            for (std::size_t at = 0; at < value.size();) {
                const auto end = std::min(value.find(k_separator, at), value.size());
                list.push_back(value.substr(at, end - at));
                at = end + 1;
            }
            setting.value = list;
        }
    }
    return setting;
}

// Lines of a descriptor.
class Lines {
  public:
    explicit Lines(int fd) : fd_(fd) {}
    // False at the end of the file.
    bool next(std::string& line) {
        while (true) {
            if (const auto end = pending_.find('\n'); end != std::string::npos) {
                line = pending_.substr(0, end);
                pending_.erase(0, end + 1);
                return true;
            }
            std::array<char, 1024> buffer{};
            const auto got = ::read(fd_, buffer.data(), buffer.size());
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return false;
            pending_.append(buffer.data(), static_cast<std::size_t>(got));
        }
    }

  private:
    int fd_;
    std::string pending_;
};

class Worker {
  public:
    Worker(const SubjectType& type, BuildInput input) : type_(type), input_(std::move(input)) {}

    std::string answer(const std::string& request) {
        const auto blank = request.find(' ');
        const std::string verb = request.substr(0, blank);
        const std::string rest = blank == std::string::npos ? std::string() : request.substr(blank + 1);
        if (verb == "hello") {
            subject_ = type_.build(input_);
            return fmt::format("ok subject={} counters={}", type_.name(),
                               escaped(counters_.why_not().empty() ? "yes" : counters_.why_not()));
        }
        if (!subject_) throw Error(ErrorCode::state, "the first request must be hello");
        if (verb == "reserve") {
            const std::string before = subject_->state_digest();
            subject_->reserve();
            return fmt::format("ok before={} after={}", before, subject_->state_digest());
        }
        if (verb == "run") return run();
        if (verb == "output") {
            write_answer(unescaped(rest), subject_->output());
            return "ok";
        }
        throw Error(ErrorCode::state, fmt::format("request '{}' is not known", verb));
    }

  private:
    std::string run() {
        subject_->poison();
        Outcome outcome;
        const Measurement m = measure(counters_, [&] { outcome = subject_->run(); });
        const Answer answer = subject_->output();
        std::string text = fmt::format(
            "ok wall={:.9f} user={:.6f} system={:.6f} minor_faults={} major_faults={} voluntary_switches={} "
            "involuntary_switches={} peak_rss={} items={} count={} checksum={} nonfinite={}",
            m.wall_s, m.user_s, m.system_s, m.minor_faults, m.major_faults, m.voluntary_switches,
            m.involuntary_switches, m.peak_rss_bytes, outcome.items, outcome.count, checksum(answer),
            nonfinite(answer));
        if (m.cycles >= 0)
            text += fmt::format(" cycles={} instructions={} cache_misses={}", m.cycles, m.instructions,
                                m.cache_misses);
        for (const auto& detector : subject_->detectors())
            text += fmt::format(" detector.{}={}", detector.name, detector.value);
        return text;
    }

    const SubjectType& type_;
    BuildInput input_;
    HardwareCounters counters_;
    std::unique_ptr<Subject> subject_;
};

}  // namespace

std::string encoded(const Settings& settings) {
    std::string text;
    for (const auto& setting : settings) text += encoded(setting) + "\n";
    return text;
}

std::vector<std::string> worker_arguments(const std::string& subject, const std::string& input,
                                          const Settings& work, const Settings& configuration) {
    std::vector<std::string> arguments{subject, "input:" + input};
    for (const auto& setting : work) arguments.push_back("w:" + encoded(setting));
    for (const auto& setting : configuration) arguments.push_back("c:" + encoded(setting));
    return arguments;
}

int serve(const std::vector<std::string>& arguments, const Subjects& subjects, int in, int out) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphans where the runner is killed
    ::signal(SIGPIPE, SIG_IGN);
    const SubjectType* type = nullptr;
    for (const auto* candidate : subjects)
        if (!arguments.empty() && candidate->name() == arguments[0]) type = candidate;
    if (type == nullptr || arguments.size() < 2 || arguments[1].rfind("input:", 0) != 0)
        throw OptionError("ladder-worker", arguments.empty() ? "nothing" : arguments[0],
                          "arguments that `lightmill ladder run` makes");
    BuildInput input;
    for (std::size_t i = 2; i < arguments.size(); ++i) {
        if (arguments[i].size() < 2) continue;
        (arguments[i][0] == 'w' ? input.work : input.configuration)
            .push_back(decoded(arguments[i].substr(2)));
    }
    const std::string path = arguments[1].substr(6);
    MappedFile file;
    Lines lines(in);
    const FileDescriptor replies(out);
    std::string request;
    auto reply = [&](std::string text) {
        text += '\n';
        write_all(replies, "the runner's pipe", std::as_bytes(std::span(text)));
    };
    std::unique_ptr<Worker> worker;
    while (lines.next(request)) {
        if (request == "end") return 0;
        try {
            if (request == "input") {
                type->write_input(input.work, path);
                reply("ok");
                continue;
            }
            if (!worker) {
                if (!path.empty()) file = MappedFile(path);
                input.input = file.bytes();
                worker = std::make_unique<Worker>(*type, input);
            }
            reply(worker->answer(request));
        } catch (const std::exception& error) {
            std::string text = error.what();
            for (auto& c : text)
                if (c == '\n') c = ' ';
            reply("error " + text);
        }
    }
    return 0;
}

}  // namespace lightmill::ladder
