"""The loop protocol of the thread pool, as LLVM IR text with `$NAMES` that `support.py` fills in.

A loop's iterations are grouped into chunks. Every thread owns a contiguous range of chunks (so that the same rows stay
in the same core's cache from layer to layer) and takes from the others' ranges when its own is empty. The caller is
thread 0: it can finish a loop alone when no worker wakes up in time.

How a chunk is claimed. Each thread has a *ticket*: the loop's generation in the high 32 bits, the chunks left in the
low 32. Claiming is one compare-and-swap that takes 1 off. A worker that comes late to a loop that is over sees a ticket
of another generation or with nothing left, whatever else it has read; so the job's fields need no lock: a worker reads
them after the generation, and a later successful claim proves that the loop was still open when they were read.

Waiting is a spin with the `pause` instruction, then a futex. Where other threads keep all CPUs busy, the system may
wake a worker on the caller's CPU and leave it there for milliseconds: the loop is serial then, and while the worker
spins, the caller does not run. So a worker that finds itself there moves. It does not call `sched_yield`, which gives
its CPU to threads of any priority. A caller that finds the pool busy (another Python thread, or a loop inside a task)
runs its loop itself, so nothing can deadlock.

Stopping. `rt` says whether the call is stopped (runtime/abi.py); the remaining iterations of its loop are then claimed
but not run.

Floating point. Workers take over the caller's MXCSR, so that a flush-to-zero mode set by another library gives the same
bits for every number of threads.
"""

from __future__ import annotations

_DRAIN = """
; Claims and runs chunks of loop %generation, thread %self's own first; returns how many chunks it claimed. Those of a
; call that was stopped are not run any more. Thread 0, which made the call, polls.
define internal i32 @drain(ptr %state, i64 %threads, i64 %self, i32 %generation) nounwind uwtable {
entry:
  %chunk_at = getelementptr i8, ptr %state, i64 $CHUNK
  %count_at = getelementptr i8, ptr %state, i64 $COUNT
  %task_at = getelementptr i8, ptr %state, i64 $TASK
  %ctx_at = getelementptr i8, ptr %state, i64 $CTX
  %base_at = getelementptr i8, ptr %state, i64 $BASE
  %extra_at = getelementptr i8, ptr %state, i64 $EXTRA
  %slots = getelementptr i8, ptr %state, i64 $SLOTS
  %chunk = load atomic i64, ptr %chunk_at unordered, align 8
  %count = load atomic i64, ptr %count_at unordered, align 8
  %task = load atomic ptr, ptr %task_at unordered, align 8
  %ctx = load atomic ptr, ptr %ctx_at unordered, align 8
  %base = load atomic i64, ptr %base_at unordered, align 8
  %extra = load atomic i64, ptr %extra_at unordered, align 8
  %rt_at = getelementptr i8, ptr %state, i64 $RT
  %rt = load atomic ptr, ptr %rt_at unordered, align 8
  %stopped_at = getelementptr i8, ptr %rt, i64 $RT_STOPPED
  %caller = icmp eq i64 %self, 0
  %many = icmp uge i64 %chunk, 8
  %mask = select i1 %many, i64 7, i64 0
  br label %victim
victim:
  %k = phi i64 [ 0, %entry ], [ %k_next, %empty ]
  %ran = phi i32 [ 0, %entry ], [ %claimed, %empty ]
  %all_seen = icmp eq i64 %k, %threads
  br i1 %all_seen, label %finish, label %select
select:
  %sum = add i64 %self, %k
  %beyond = icmp uge i64 %sum, %threads
  %wrapped = sub i64 %sum, %threads
  %t = select i1 %beyond, i64 %wrapped, i64 %sum
  %ticket_offset = mul i64 %t, $SLOT_BYTES
  %ticket = getelementptr i8, ptr %slots, i64 %ticket_offset
  %has_extra = icmp ult i64 %t, %extra
  %one_more = zext i1 %has_extra to i64
  %owned = add i64 %base, %one_more
  %extras_before = call i64 @llvm.umin.i64(i64 %t, i64 %extra)
  %bases_before = mul i64 %t, %base
  %first = add i64 %bases_before, %extras_before
  %end = add i64 %first, %owned
  br label %claim
claim:
  %claimed = phi i32 [ %ran, %select ], [ %claimed, %swap ], [ %claimed_next, %begin ],
      [ %claimed_next, %go_on ], [ %claimed_next, %next ]
  %value = load atomic i64, ptr %ticket acquire, align 8
  %high = lshr i64 %value, 32
  %of_generation = trunc i64 %high to i32
  %same = icmp eq i32 %of_generation, %generation
  %left = and i64 %value, 4294967295
  %some = icmp ne i64 %left, 0
  %open = and i1 %same, %some
  br i1 %open, label %swap, label %empty
swap:
  %less = sub i64 %value, 1
  %swapped = cmpxchg ptr %ticket, i64 %value, i64 %less acq_rel monotonic, align 8
  %won = extractvalue { i64, i1 } %swapped, 1
  br i1 %won, label %begin, label %claim
begin:
  %claimed_next = add i32 %claimed, 1
  %c = sub i64 %end, %left
  %low = mul i64 %c, %chunk
  %low_next = add i64 %low, %chunk
  %stop = call i64 @llvm.umin.i64(i64 %low_next, i64 %count)
  %before = load atomic i32, ptr %stopped_at monotonic, align 4
  %over_before = icmp ne i32 %before, 0
  br i1 %over_before, label %claim, label %run
run:
  %i = phi i64 [ %low, %begin ], [ %i_next, %next ]
  call void %task(ptr %ctx, i64 %i)
  %i_next = add i64 %i, 1
  %low_bits = and i64 %i, %mask
  %due = icmp eq i64 %low_bits, 0
  %polls = and i1 %due, %caller
  br i1 %polls, label %poll, label %go_on
poll:
  %answer = call i32 @graphc_poll(ptr %rt)
  br label %go_on
go_on:
  %stopped = load atomic i32, ptr %stopped_at monotonic, align 4
  %over = icmp ne i32 %stopped, 0
  br i1 %over, label %claim, label %next
next:
  %more = icmp ult i64 %i_next, %stop
  br i1 %more, label %run, label %claim
empty:
  %k_next = add i64 %k, 1
  br label %victim
finish:
  ret i32 %ran
}
"""

_LEAVE_CPU = """
; Moves this thread to another CPU than %cpu, if it may use one; the system may move it anywhere from then on.
define internal void @leave_cpu(i32 %cpu) nounwind uwtable {
entry:
  %mask = alloca [16 x i64], align 8
  %bytes = call i64 @affinity(i64 $GETAFFINITY, i64 128, ptr %mask)
  %known = icmp sgt i64 %bytes, 0
  %numbered = icmp ult i32 %cpu, 1024
  %possible = and i1 %known, %numbered
  br i1 %possible, label %move, label %finish
move:
  %index = lshr i32 %cpu, 6
  %word_at = getelementptr i64, ptr %mask, i32 %index
  %word = load i64, ptr %word_at
  %wide = zext i32 %cpu to i64
  %bit_index = and i64 %wide, 63
  %bit = shl i64 1, %bit_index
  %flipped = xor i64 %bit, -1
  %others = and i64 %word, %flipped
  store i64 %others, ptr %word_at
  %moved = call i64 @affinity(i64 $SETAFFINITY, i64 %bytes, ptr %mask)
  store i64 %word, ptr %word_at
  %free = call i64 @affinity(i64 $SETAFFINITY, i64 %bytes, ptr %mask)
  br label %finish
finish:
  ret void
}
"""

_WORKER = """
define internal ptr @worker(ptr %slot) nounwind uwtable {
entry:
  %pool_at = getelementptr i8, ptr %slot, i64 $S_POOL
  %pool = load ptr, ptr %pool_at
  %index_at = getelementptr i8, ptr %slot, i64 $S_INDEX
  %index = load i64, ptr %index_at
  %threads_at = getelementptr i8, ptr %pool, i64 $P_THREADS
  %threads = load i64, ptr %threads_at
  %state_at = getelementptr i8, ptr %pool, i64 $P_STATE
  %state = load ptr, ptr %state_at
  %generation_at = getelementptr i8, ptr %state, i64 $GENERATION
  %mxcsr_at = getelementptr i8, ptr %state, i64 $MXCSR
  %stop_at = getelementptr i8, ptr %state, i64 $STOP
  %cpu_at = getelementptr i8, ptr %state, i64 $CPU
  %done_at = getelementptr i8, ptr %state, i64 $DONE
  %waiter_at = getelementptr i8, ptr %state, i64 $WAITER
  %sleepers_at = getelementptr i8, ptr %state, i64 $SLEEPERS
  br label %await
await:
  %seen = phi i32 [ 0, %entry ], [ %seen, %park ], [ %generation, %help ],
      [ %generation, %report ], [ %generation, %wake ]
  %start = call i64 @now()
  %deadline = add i64 %start, $SPIN
  br label %spin
spin:
  %n = phi i32 [ 1, %await ], [ %n_next, %relax ], [ %n_next, %look ]
  %generation = load atomic i32, ptr %generation_at acquire, align 4
  %changed = icmp ne i32 %generation, %seen
  br i1 %changed, label %awake, label %relax
relax:
  call void @$PAUSE()
  %n_next = add i32 %n, 1
  %low_bits = and i32 %n, 63
  %not_yet = icmp ne i32 %low_bits, 0
  br i1 %not_yet, label %spin, label %look
look:
  %time = call i64 @now()
  %late = icmp sgt i64 %time, %deadline
  br i1 %late, label %park, label %spin
park:
  %slept = atomicrmw add ptr %sleepers_at, i32 1 seq_cst
  %expected = zext i32 %seen to i64
  %w = call i64 @futex(ptr %generation_at, i64 $WAIT, i64 %expected, ptr null)
  %woke = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst
  br label %await
awake:
  %stop = load atomic i32, ptr %stop_at acquire, align 4
  %stopping = icmp ne i32 %stop, 0
  br i1 %stopping, label %leave, label %work
work:
  %here = call i32 @own_cpu()
  %there = load atomic i32, ptr %cpu_at monotonic, align 4
  %together = icmp eq i32 %here, %there
  br i1 %together, label %move, label %help
move:
  call void @leave_cpu(i32 %here)
  br label %help
help:
  call void @$SET_MODE(ptr %mxcsr_at)
  %ran = call i32 @drain(ptr %state, i64 %threads, i64 %index, i32 %generation)
  %idle = icmp eq i32 %ran, 0
  br i1 %idle, label %await, label %report
report:
  %before = atomicrmw add ptr %done_at, i32 %ran seq_cst
  %waiter = load atomic i32, ptr %waiter_at seq_cst, align 4
  %awaited = icmp ne i32 %waiter, 0
  br i1 %awaited, label %wake, label %await
wake:
  %x = call i64 @futex(ptr %done_at, i64 $WAKE, i64 1, ptr null)
  br label %await
leave:
  ret ptr null
}
"""

_AWAIT_DONE = """
; Returns when workers have finished %need chunks of the current loop; polls meanwhile.
define internal void @await_done(ptr %state, ptr %rt, i32 %need) nounwind uwtable {
entry:
  %patience = alloca { i64, i64 }
  store i64 0, ptr %patience
  %nanos_at = getelementptr i8, ptr %patience, i64 8
  store i64 $POLL_NANOSECONDS, ptr %nanos_at
  %done_at = getelementptr i8, ptr %state, i64 $DONE
  %waiter_at = getelementptr i8, ptr %state, i64 $WAITER
  %early = load atomic i32, ptr %done_at acquire, align 4
  %at_once = icmp eq i32 %early, %need
  br i1 %at_once, label %finish, label %slow
slow:
  %start = call i64 @now()
  %deadline = add i64 %start, $SPIN
  br label %spin
spin:
  %n = phi i32 [ 1, %slow ], [ %n_next, %relax ], [ %n_next, %look ]
  %done = load atomic i32, ptr %done_at acquire, align 4
  %complete = icmp eq i32 %done, %need
  br i1 %complete, label %finish, label %relax
relax:
  call void @$PAUSE()
  %n_next = add i32 %n, 1
  %low_bits = and i32 %n, 63
  %not_yet = icmp ne i32 %low_bits, 0
  br i1 %not_yet, label %spin, label %look
look:
  %time = call i64 @now()
  %late = icmp sgt i64 %time, %deadline
  br i1 %late, label %announce, label %spin
announce:
  %old = atomicrmw xchg ptr %waiter_at, i32 1 seq_cst
  br label %check
check:
  %current = load atomic i32, ptr %done_at seq_cst, align 4
  %all = icmp eq i32 %current, %need
  br i1 %all, label %withdraw, label %park
park:
  %expected = zext i32 %current to i64
  %w = call i64 @futex(ptr %done_at, i64 $WAIT, i64 %expected, ptr %patience)
  %answer = call i32 @graphc_poll(ptr %rt)
  br label %check
withdraw:
  store atomic i32 0, ptr %waiter_at monotonic, align 4
  br label %finish
finish:
  ret void
}
"""

_PUBLISH = """
; Announces a loop to the workers, wakes sleeping ones, runs chunks itself and waits for the rest.
define internal void @run_loop(ptr %state, i64 %threads, ptr %rt, ptr %task, ptr %ctx, i64 %count) nounwind uwtable {
entry:
  %generation_at = getelementptr i8, ptr %state, i64 $GENERATION
  %mxcsr_at = getelementptr i8, ptr %state, i64 $MXCSR
  %chunk_at = getelementptr i8, ptr %state, i64 $CHUNK
  %count_at = getelementptr i8, ptr %state, i64 $COUNT
  %task_at = getelementptr i8, ptr %state, i64 $TASK
  %ctx_at = getelementptr i8, ptr %state, i64 $CTX
  %base_at = getelementptr i8, ptr %state, i64 $BASE
  %extra_at = getelementptr i8, ptr %state, i64 $EXTRA
  %done_at = getelementptr i8, ptr %state, i64 $DONE
  %sleepers_at = getelementptr i8, ptr %state, i64 $SLEEPERS
  %cpu_at = getelementptr i8, ptr %state, i64 $CPU
  %slots = getelementptr i8, ptr %state, i64 $SLOTS
  %last = sub i64 %count, 1
  %most = mul i64 %threads, $CHUNKS_PER_THREAD
  %chunk_less = udiv i64 %last, %most
  %chunk = add i64 %chunk_less, 1
  %last_chunk = udiv i64 %last, %chunk
  %chunks = add i64 %last_chunk, 1
  %base = udiv i64 %chunks, %threads
  %extra = urem i64 %chunks, %threads
  %old = load atomic i32, ptr %generation_at monotonic, align 4
  %generation = add i32 %old, 1
  store atomic i32 0, ptr %done_at monotonic, align 4
  call void @$SAVE_MODE(ptr %mxcsr_at)
  store atomic i64 %chunk, ptr %chunk_at unordered, align 8
  store atomic i64 %count, ptr %count_at unordered, align 8
  store atomic ptr %task, ptr %task_at unordered, align 8
  store atomic ptr %ctx, ptr %ctx_at unordered, align 8
  %rt_at = getelementptr i8, ptr %state, i64 $RT
  store atomic ptr %rt, ptr %rt_at unordered, align 8
  store atomic i64 %base, ptr %base_at unordered, align 8
  store atomic i64 %extra, ptr %extra_at unordered, align 8
  %cpu = call i32 @own_cpu()
  store atomic i32 %cpu, ptr %cpu_at monotonic, align 4
  %wide = zext i32 %generation to i64
  %high = shl i64 %wide, 32
  br label %deal
deal:
  %t = phi i64 [ 0, %entry ], [ %t_next, %deal ]
  %has_extra = icmp ult i64 %t, %extra
  %one_more = zext i1 %has_extra to i64
  %owned = add i64 %base, %one_more
  %value = or i64 %high, %owned
  %offset = mul i64 %t, $SLOT_BYTES
  %ticket = getelementptr i8, ptr %slots, i64 %offset
  store atomic i64 %value, ptr %ticket release, align 8
  %t_next = add i64 %t, 1
  %dealing = icmp ult i64 %t_next, %threads
  br i1 %dealing, label %deal, label %announce
announce:
  %previous = atomicrmw xchg ptr %generation_at, i32 %generation seq_cst
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  %w = call i64 @futex(ptr %generation_at, i64 $WAKE, i64 %last_chunk, ptr null)
  br label %help
help:
  %ran = call i32 @drain(ptr %state, i64 %threads, i64 0, i32 %generation)
  %all = trunc i64 %chunks to i32
  %need = sub i32 %all, %ran
  %alone = icmp eq i32 %need, 0
  br i1 %alone, label %finish, label %wait
wait:
  call void @await_done(ptr %state, ptr %rt, i32 %need)
  br label %finish
finish:
  ret void
}
"""

_PARALLEL_FOR = """
define internal void @parallel_for(ptr %rt, ptr %task, ptr %ctx, i64 %count) nounwind uwtable {
entry:
  %pool_at = getelementptr i8, ptr %rt, i64 $RT_POOL
  %pool = load ptr, ptr %pool_at
  %several = icmp sgt i64 %count, 1
  br i1 %several, label %process, label %serial_check
process:
  %owner_at = getelementptr i8, ptr %pool, i64 $P_OWNER
  %owner = load i32, ptr %owner_at
  %wipes = icmp slt i32 %owner, 0
  br i1 %wipes, label %enter, label %compare
compare:
  %pid = call i32 @own_process()
  %ours = icmp eq i32 %pid, %owner
  br i1 %ours, label %enter, label %serial_check
enter:
  %threads_at = getelementptr i8, ptr %pool, i64 $P_THREADS
  %threads = load i64, ptr %threads_at
  %state_at = getelementptr i8, ptr %pool, i64 $P_STATE
  %state = load ptr, ptr %state_at
  %lock_at = getelementptr i8, ptr %state, i64 $LOCK
  %locked = cmpxchg ptr %lock_at, i32 0, i32 1 acquire monotonic, align 4
  %free = extractvalue { i32, i1 } %locked, 1
  br i1 %free, label %holding, label %serial_check
holding:
  %started_at = getelementptr i8, ptr %state, i64 $STARTED
  %started = load i32, ptr %started_at
  %cold = icmp eq i32 %started, 0
  br i1 %cold, label %start, label %go
start:
  call void @start_workers(ptr %pool, ptr %state, i64 %threads)
  br label %go
go:
  call void @run_loop(ptr %state, i64 %threads, ptr %rt, ptr %task, ptr %ctx, i64 %count)
  store atomic i32 0, ptr %lock_at release, align 4
  ret void
serial_check:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %serial, label %finish
serial:
  %i = phi i64 [ 0, %serial_check ], [ %i_next, %next ]
  call void %task(ptr %ctx, i64 %i)
  %i_next = add i64 %i, 1
  %answer = call i32 @graphc_poll(ptr %rt)
  %over = icmp ne i32 %answer, 0
  br i1 %over, label %finish, label %next
next:
  %more = icmp slt i64 %i_next, %count
  br i1 %more, label %serial, label %finish
finish:
  ret void
}
"""

LOOP_TEXT = "".join((_DRAIN, _LEAVE_CPU, _WORKER, _AWAIT_DONE, _PUBLISH, _PARALLEL_FOR))
"""Defines `@worker` (what a pool thread runs) and `@parallel_for` (the first field of `rt`); needs `@start_workers`,
and the functions of `support_system.py`."""
