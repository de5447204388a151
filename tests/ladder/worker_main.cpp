#include "lightmill/ladder/run/worker.hpp"
#include "lightmill/subjects/subjects.hpp"
#include "tests/ladder/faulty_subject.hpp"

int main(int argc, char** argv) {
    const lightmill::ladder::testing_support::FaultyType faulty;
    return lightmill::ladder::serve({argv + 1, argv + argc},
                                    {&lightmill::subjects::demo(), &lightmill::subjects::command(), &faulty},
                                    0, 3);
}
