/* emulator: what its parts tell one another.
 *   block.cc    a block's threads as fibers, in an order that chance gives
 *   checker.cc  every access of a kernel to memory: where it may go, and who else was there
 *   memory.cc   device memory, which the host cannot touch, and pinned memory
 *   streams.cc  queues that run later, events, recordings
 *   copies.cc   copies, and the calls for memory
 *   runtime.cc  the devices, their errors, and what stands in for cuDNN
 *   matmul.cc   cuBLASLt (cublasLt.h beside it)
 *   communicators.cc  NCCL, for the threads of one process
 * One gate: whoever runs queued work, or changes what it runs in, holds it. */
#pragma once
#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <vector>

extern std::recursive_mutex emulator_gate;
extern cudaError_t emulator_fault; /* stays once it has happened */

/* BRR_EMULATED_DEVICES devices, one without; each thread has a current one. */
int emulator_devices(void);
int emulator_current(void);
/* Kernels of the device may go to memory of the other one: it is the same, or access was enabled. */
bool emulator_reaches(int device, int other);
/* A call for which CUDA makes a context on the thread's current device (cudaSetDevice, memory, streams). */
void emulator_use_device(void);
/* Returns code, which cudaGetLastError of this thread returns next, too, unless it is success. Each call that fails says so. */
cudaError_t emulator_told(cudaError_t code);
/* Queues work of a library on the stream, as a kernel. It runs with device memory open. */
cudaError_t emulator_work(cudaStream_t stream, std::function<void()> work);

/* Queues a copy or a filling; device memory is open when it runs. Under the gate. */
cudaError_t emulator_copy(cudaStream_t stream, std::function<void()> work);
bool emulator_records(cudaStream_t stream); /* it takes part in a recording */
/* True if the stream takes part in a recording, or for NULL if this thread has one under way. The call may not be made then: it
 * fails with cudaErrorStreamCaptureUnsupported, and so does the recording. Under the gate. */
bool emulator_forbids(cudaStream_t stream);

/* Queues a meeting of streams: `arrive` runs when the stream comes to it, with device memory open, and the stream goes on once all
 * flags are raised, which others may do. */
typedef std::shared_ptr<struct event_state> emulator_flag;
emulator_flag emulator_flag_new(void);
void emulator_raise(const emulator_flag &flag);
cudaError_t emulator_meet(cudaStream_t stream, std::function<void()> arrive, const std::vector<emulator_flag> &flags);

/* A random number below n; the same numbers in each run that has one host thread, unless BRR_TEST_SEED names another seed. Under
 * the gate. */
uint64_t emulator_chance(uint64_t n);
/* The program did what no GPU forgives or what it would forgive only now and then: says so, with the seed, and ends it. */
[[noreturn]] void emulator_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs a kernel now. One that goes where nothing is leaves emulator_fault. Under the gate, device memory open. */
void block_run(const char *kernel, int device, dim3 grid, unsigned threads, const std::function<void()> &thread);
[[noreturn]] void block_fault(void); /* from a kernel: back to its launch */
/* The stacks of a block's threads: what runs on one of them is a kernel. */
void block_stacks(uintptr_t *ret_from, size_t *ret_bytes);

/* What separates accesses in time: a launch (name: static text), a block, a barrier of the running block. Under the gate. */
void checker_kernel(const char *name, int device);
void checker_block(void);
void checker_barrier(void);

enum { MEMORY_UNIT = 256 };
extern uintptr_t memory_base; /* of the device's addresses */
extern const size_t memory_bytes;
extern uint16_t *memory_valid; /* bytes of each unit that belong to an allocation */
extern uint8_t *memory_owner;  /* the device of each unit */
static inline bool memory_is_device(const void *p) { return (uintptr_t)p - memory_base < memory_bytes; }
/* Between these the host's side of the program may touch device memory; they nest. Under the gate. */
void memory_open(void);
void memory_shut(void);
/* bytes > 0, filled with 0xff; cudaErrorMemoryAllocation when there is no gap. What is given and was not taken ends the program.
 * Both take the gate. */
cudaError_t memory_take(void **ret, size_t bytes);
void memory_give(void *p);
/* Whether all of it is allocated, where it is device memory at all. */
bool memory_holds(const void *p, size_t bytes);
