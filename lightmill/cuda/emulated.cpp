#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <unordered_map>

#include "lightmill/base/error.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::cuda {
namespace {

struct EmulatedMark {
    std::uint64_t recorded = 0, done = 0;  // how often
};

// What the devices share: their queues, so that they can wait for each other.
struct World {
    struct Step {
        std::function<void()> work;
        const EmulatedMark* awaited = nullptr;  // the step is due once it was done `generation` times
        std::uint64_t generation = 0;
    };
    std::mt19937_64 random;
    std::deque<std::deque<Step>> queues;

    // Runs one step of a random queue that has one that is due.
    void advance() {
        std::vector<std::deque<Step>*> due;
        for (auto& queue : queues) {
            if (!queue.empty() &&
                (queue.front().awaited == nullptr || queue.front().awaited->done >= queue.front().generation))
                due.push_back(&queue);
        }
        if (due.empty()) throw Error(ErrorCode::state, "the queues wait for each other for ever", "emulated");
        auto& queue = *due[random() % due.size()];
        auto step = std::move(queue.front());
        queue.pop_front();
        if (step.work) step.work();
    }
};

class Emulated final : public Device {
  public:
    Emulated(std::shared_ptr<World> world, std::size_t memory_bytes)
        : world_(std::move(world)), memory_bytes_(memory_bytes) {}

    std::string name() const override { return "emulated"; }

    void* allocate(std::size_t bytes) override {
        const std::lock_guard lock(mutex_);
        if (memory_bytes_ > 0 && used_ + bytes > memory_bytes_) {
            throw DeviceError("allocate", 2, "out of memory", true);
        }
        void* memory = std::malloc(std::max<std::size_t>(bytes, 1));
        std::memset(memory, 0xA5, bytes);  // so that what nobody wrote is seen
        sizes_[memory] = bytes;
        used_ += bytes;
        return memory;
    }
    void free(void* memory) noexcept override {
        const std::lock_guard lock(mutex_);
        used_ -= sizes_[memory];
        sizes_.erase(memory);
        std::free(memory);
    }
    void* allocate_pinned(std::size_t bytes) override {
        void* memory = std::malloc(std::max<std::size_t>(bytes, 1));
        std::memset(memory, 0x5A, bytes);
        return memory;
    }
    void free_pinned(void* memory) noexcept override { std::free(memory); }
    void pin(const void* memory, std::size_t bytes) override {
        const std::lock_guard lock(mutex_);
        ranges_[static_cast<const std::byte*>(memory)] = bytes;
    }
    void unpin(const void* memory) noexcept override {
        const std::lock_guard lock(mutex_);
        ranges_.erase(static_cast<const std::byte*>(memory));
    }
    bool pinned(const void* memory) const noexcept override {
        const std::lock_guard lock(mutex_);
        const auto* at = static_cast<const std::byte*>(memory);
        for (const auto& [first, bytes] : ranges_) {
            if (at >= first && at < first + bytes) return true;
        }
        return false;
    }

    Queue make_queue() override {
        world_->queues.emplace_back();
        return {static_cast<int>(world_->queues.size()) - 1};
    }
    Mark make_mark() override {
        marks_.push_back(std::make_shared<EmulatedMark>());
        return {marks_.back().get()};
    }
    void record(Queue queue, Mark mark) override {
        auto* m = static_cast<EmulatedMark*>(mark.handle);
        ++m->recorded;
        push(queue, {[m] { ++m->done; }});
    }
    void wait(Queue queue, Mark mark) override {
        const auto* m = static_cast<const EmulatedMark*>(mark.handle);
        push(queue, {{}, m, m->recorded});
    }
    bool done(Mark mark) override {
        const auto* m = static_cast<const EmulatedMark*>(mark.handle);
        // Some of the work happens to be done meanwhile.
        for (auto steps = world_->random() % 4; steps > 0 && m->done < m->recorded; --steps)
            world_->advance();
        return m->done == m->recorded;
    }
    void synchronize(Mark mark) override {
        const auto* m = static_cast<const EmulatedMark*>(mark.handle);
        while (m->done < m->recorded) world_->advance();
    }

    void copy_in(Queue queue, void* device, const void* host, std::size_t bytes) override {
        copy(queue, device, host, bytes);
    }
    void copy_in_pieces(Queue queue, void* device, const void* host, std::size_t bytes, std::size_t host_step,
                        std::size_t count) override {
        push(queue, {[=] {
                 for (std::size_t i = 0; i < count; ++i) {
                     std::memcpy(static_cast<std::byte*>(device) + i * bytes,
                                 static_cast<const std::byte*>(host) + i * host_step, bytes);
                 }
             }});
    }
    void copy_out(Queue queue, void* host, const void* device, std::size_t bytes) override {
        copy(queue, host, device, bytes);
    }
    void copy(Queue queue, void* to, const void* from, std::size_t bytes) override {
        push(queue, {[=] {
                 if (bytes > 0) std::memcpy(to, from, bytes);
             }});
    }
    void zero(Queue queue, void* device, std::size_t bytes) override {
        push(queue, {[=] { std::memset(device, 0, bytes); }});
    }

    void begin_capture(Queue queue) override {
        captured_.emplace_back();
        capturing_ = queue.index;
    }
    Graph end_capture(Queue) override {
        capturing_ = -1;
        return {static_cast<int>(captured_.size()) - 1};
    }
    void replay(Queue queue, Graph graph) override {
        for (const auto& step : captured_[static_cast<std::size_t>(graph.index)]) push(queue, step);
    }

  protected:
    void launch_erased(Queue queue, const ErasedKernel& kernel, const Shape& shape, const void* parameters,
                       std::size_t size) override {
        const auto* bytes = static_cast<const std::byte*>(parameters);
        push(queue, {[kernel, shape, copy = std::vector<std::byte>(bytes, bytes + size)] {
                 kernel.call_host(kernel.host, shape, copy.data());
             }});
    }

    unsigned resident_blocks_erased(const void*, const Shape&) override { return ~0U; }

  private:
    void push(Queue queue, World::Step step) {
        if (queue.index == capturing_) {
            captured_.back().push_back(std::move(step));
            return;
        }
        world_->queues[static_cast<std::size_t>(queue.index)].push_back(std::move(step));
    }

    std::shared_ptr<World> world_;
    std::size_t memory_bytes_, used_ = 0;
    mutable std::mutex mutex_;
    std::unordered_map<void*, std::size_t> sizes_;
    std::unordered_map<const std::byte*, std::size_t> ranges_;
    std::vector<std::shared_ptr<EmulatedMark>> marks_;
    std::vector<std::vector<World::Step>> captured_;
    int capturing_ = -1;
};

}  // namespace

std::vector<std::shared_ptr<Device>> emulated_devices(int count, std::uint64_t seed,
                                                      std::size_t memory_bytes) {
    const auto world = std::make_shared<World>();
    world->random.seed(seed);
    std::vector<std::shared_ptr<Device>> devices;
    for (int i = 0; i < count; ++i) devices.push_back(std::make_shared<Emulated>(world, memory_bytes));
    return devices;
}

}  // namespace lightmill::cuda
