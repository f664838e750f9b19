"""The parts of a library's interface that do not depend on the number of tensors, as LLVM IR."""

from __future__ import annotations

from string import Template

TABLE_FIELDS = {
    "entry": "ptr", "arena": "ptr", "weights": "ptr", "info": "ptr", "head": "ptr", "weights_bytes": "i64",
    "head_bytes": "i64", "file_bytes": "i64", "data_at": "i64",
}  # fmt: skip
"""Fields of a variant's table, 8 bytes each."""

CHECKS = """
; Whether %count pointers have none of the bits that are set in %masks, and those of arrays with elements are not null.
; %bytes: the size of an array by its number.
define internal i1 @pointers_valid(ptr %pointers, ptr %masks, i64 %count, ptr %bytes, ptr %dims) #0 {
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %good, label %given
given:
  %missing = icmp eq ptr %pointers, null
  br i1 %missing, label %bad, label %each
each:
  %i = phi i64 [ 0, %given ], [ %next, %on ]
  %at = getelementptr ptr, ptr %pointers, i64 %i
  %pointer = load ptr, ptr %at
  %is_null = icmp eq ptr %pointer, null
  br i1 %is_null, label %ask, label %see_low
ask:
  %size = call i64 %bytes(i64 %i, ptr %dims)
  %is_empty = icmp eq i64 %size, 0
  br i1 %is_empty, label %on, label %bad
see_low:
  %mask_at = getelementptr i64, ptr %masks, i64 %i
  %mask = load i64, ptr %mask_at
  %address = ptrtoint ptr %pointer to i64
  %low = and i64 %address, %mask
  %is_odd = icmp ne i64 %low, 0
  br i1 %is_odd, label %bad, label %on
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %each, label %good
good:
  ret i1 true
bad:
  ret i1 false
}

; Whether all bytes are set.
define internal i1 @all_set(ptr %data, i64 %size) #0 {
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %next, %on ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %look, label %good
look:
  %at = getelementptr i8, ptr %data, i64 %i
  %byte = load i8, ptr %at
  %set = icmp ne i8 %byte, 0
  br i1 %set, label %on, label %bad
on:
  %next = add i64 %i, 1
  br label %each
good:
  ret i1 true
bad:
  ret i1 false
}
"""

RUN = Template("""
; Whether every dynamic dimension is in its range.
define internal i1 @dims_valid(ptr %dims) #0 {
entry:
  %none = icmp eq i64 $DIMS, 0
  br i1 %none, label %good, label %given
given:
  %missing = icmp eq ptr %dims, null
  br i1 %missing, label %bad, label %each
each:
  %i = phi i64 [ 0, %given ], [ %next, %on ]
  %at = getelementptr i64, ptr %dims, i64 %i
  %value = load i64, ptr %at
  %row = getelementptr { ptr, i64, i64 }, ptr @dims, i64 %i
  %min_at = getelementptr i8, ptr %row, i64 8
  %max_at = getelementptr i8, ptr %row, i64 16
  %min = load i64, ptr %min_at
  %max = load i64, ptr %max_at
  %low = icmp slt i64 %value, %min
  %high = icmp sgt i64 %value, %max
  %wrong = or i1 %low, %high
  br i1 %wrong, label %bad, label %on
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, $DIMS
  br i1 %more, label %each, label %good
good:
  ret i1 true
bad:
  ret i1 false
}

define ptr @${PREFIX}_info() #0 {
entry:
  %variant = call ptr @$SELECT()
  %unsupported = icmp eq ptr %variant, null
  br i1 %unsupported, label %none, label %some
some:
  %at = getelementptr i8, ptr %variant, i64 24
  %info = load ptr, ptr %at
  ret ptr %info
none:
  ret ptr @info.none
}

define i64 @${PREFIX}_arena_bytes(ptr %dims) #0 {
entry:
  %variant = call ptr @$SELECT()
  %unsupported = icmp eq ptr %variant, null
  br i1 %unsupported, label %bad_cpu, label %look
look:
  %valid = call i1 @dims_valid(ptr %dims)
  br i1 %valid, label %ask, label %bad_dims
ask:
  %at = getelementptr i8, ptr %variant, i64 8
  %function = load ptr, ptr %at
  %size = call i64 %function(ptr %dims)
  ret i64 %size
bad_cpu:
  ret i64 $ERROR_CPU
bad_dims:
  ret i64 $ERROR_DIMS
}

; The weights in a file that is in memory; null where it is another file.
define ptr @${PREFIX}_weights(ptr %file, i64 %bytes) #0 {
entry:
  %variant = call ptr @$SELECT()
  %unsupported = icmp eq ptr %variant, null
  %missing = icmp eq ptr %file, null
  %nothing = or i1 %unsupported, %missing
  br i1 %nothing, label %bad, label %look
look:
  %head_at = getelementptr i8, ptr %variant, i64 32
  %head = load ptr, ptr %head_at
  %head_bytes_at = getelementptr i8, ptr %variant, i64 48
  %head_bytes = load i64, ptr %head_bytes_at
  %file_bytes_at = getelementptr i8, ptr %variant, i64 56
  %file_bytes = load i64, ptr %file_bytes_at
  %whole = icmp eq i64 %file_bytes, %bytes
  %outside = icmp ne i64 %head_bytes, 0
  %known = and i1 %whole, %outside
  br i1 %known, label %each, label %bad
each:
  %i = phi i64 [ 0, %look ], [ %next, %on ]
  %more = icmp ult i64 %i, %head_bytes
  br i1 %more, label %compare, label %good
compare:
  %a_at = getelementptr i8, ptr %head, i64 %i
  %b_at = getelementptr i8, ptr %file, i64 %i
  %a = load i8, ptr %a_at
  %b = load i8, ptr %b_at
  %same = icmp eq i8 %a, %b
  br i1 %same, label %on, label %bad
on:
  %next = add i64 %i, 1
  br label %each
good:
  %data_at_at = getelementptr i8, ptr %variant, i64 64
  %data_at = load i64, ptr %data_at_at
  %data = getelementptr i8, ptr %file, i64 %data_at
  ret ptr %data
bad:
  ret ptr null
}

define i32 @${PREFIX}_run(ptr %inputs, ptr %outputs, ptr %dims, ptr %weights, ptr %arena, i64 %room,
    ptr %runtime) #0 {
entry:
  %variant = call ptr @$SELECT()
  %unsupported = icmp eq ptr %variant, null
  br i1 %unsupported, label %bad_cpu, label %see_dims
see_dims:
  %dims_good = call i1 @dims_valid(ptr %dims)
  br i1 %dims_good, label %see_inputs, label %bad_dims
see_inputs:
  %inputs_valid = call i1 @pointers_valid(ptr %inputs, ptr @inputs.masks, i64 $INPUTS, ptr @${PREFIX}_input_bytes,
                                       ptr %dims)
  br i1 %inputs_valid, label %see_outputs, label %bad_input
see_outputs:
  %outputs_valid = call i1 @pointers_valid(ptr %outputs, ptr @outputs.masks, i64 $OUTPUTS, ptr @${PREFIX}_output_bytes,
                                        ptr %dims)
  br i1 %outputs_valid, label %see_aliases, label %bad_output
see_aliases:
$ALIASES  br label %see_weights
see_weights:
  %own_at = getelementptr i8, ptr %variant, i64 16
  %own = load ptr, ptr %own_at
  %size_at = getelementptr i8, ptr %variant, i64 40
  %size = load i64, ptr %size_at
  %not_given = icmp eq ptr %weights, null
  %constants = select i1 %not_given, ptr %own, ptr %weights
  %constants_at = ptrtoint ptr %constants to i64
  %no_constants = icmp eq i64 %constants_at, 0
  %need_constants = icmp ne i64 %size, 0
  %lack_constants = and i1 %no_constants, %need_constants
  %constants_low = and i64 %constants_at, $MASK
  %constants_odd = icmp ne i64 %constants_low, 0
  %constants_bad = or i1 %lack_constants, %constants_odd
  br i1 %constants_bad, label %bad_weights, label %see_arena
see_arena:
  %arena_bytes_at = getelementptr i8, ptr %variant, i64 8
  %arena_bytes = load ptr, ptr %arena_bytes_at
  %needed = call i64 %arena_bytes(ptr %dims)
  %arena_at = ptrtoint ptr %arena to i64
  %no_arena = icmp eq i64 %arena_at, 0
  %given = select i1 %no_arena, i64 0, i64 %room
  %lack_arena = icmp slt i64 %given, %needed
  %arena_low = and i64 %arena_at, $MASK
  %arena_odd = icmp ne i64 %arena_low, 0
  %arena_bad = or i1 %lack_arena, %arena_odd
  br i1 %arena_bad, label %bad_arena, label %go
go:
  %code = load ptr, ptr %variant
  %status = call i32 %code(ptr %inputs, ptr %outputs, ptr %dims, ptr %constants, ptr %arena, ptr %runtime)
  %stopped = icmp ne i32 %status, 0
  br i1 %stopped, label %leave, label %whole
leave:
  ret i32 %status
whole:
$COUNTS$CONDITIONS  ret i32 0
bad_cpu:
  ret i32 $ERROR_CPU
bad_input:
  ret i32 $ERROR_INPUT
bad_output:
  ret i32 $ERROR_OUTPUT
bad_dims:
  ret i32 $ERROR_DIMS
bad_weights:
  ret i32 $ERROR_WEIGHTS
bad_arena:
  ret i32 $ERROR_ARENA
bad_room:
  ret i32 $ERROR_ROOM
}
""")
"""The functions that choose a variant. Offsets are those of `TABLE_FIELDS`."""
