// loop_tables.h: the parts of find_element_loop(), by the types of their elements. A part returns
// nullptr for an op that it lacks.
#pragma once
#include "kernels/cpu/tensor/element_loops.h"

namespace veery {

ElementLoop integer_loop(Target target, ElementOp op, ElementType type);  ///< bool too
ElementLoop float_loop(Target target, ElementOp op, ElementType type);
ElementLoop cast_loop(Target target, ElementType from, ElementType to);

}  // namespace veery
