#include "lightmill/subjects/subjects.hpp"

namespace lightmill::subjects {

ladder::Subjects all() {
    return {&clusters(), &command(), &demo(), &matrix(), &tiles()};
}

}  // namespace lightmill::subjects
