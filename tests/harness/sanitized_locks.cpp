// The thread sanitizer of GCC 12 does not see locks that are taken with a deadline of the steady
// clock: it calls their release an error, and does not know what they put in order. In sanitized
// tests these functions of the C library take them with a deadline of the system's clock, which it
// sees.
#if defined(__SANITIZE_THREAD__)
#include <pthread.h>
#include <time.h>

namespace {

timespec on_system_clock(clockid_t clock, const timespec& deadline) {
  constexpr long kSecond = 1'000'000'000;
  timespec now{};
  timespec system{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &system);
  system.tv_sec += deadline.tv_sec - now.tv_sec;
  system.tv_nsec += deadline.tv_nsec - now.tv_nsec;
  if (system.tv_nsec < 0) {
    system.tv_nsec += kSecond;
    --system.tv_sec;
  } else if (system.tv_nsec >= kSecond) {
    system.tv_nsec -= kSecond;
    ++system.tv_sec;
  }
  return system;
}

}  // namespace

extern "C" int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                       const timespec* deadline) noexcept {
  const timespec system = on_system_clock(clock, *deadline);
  return pthread_mutex_timedlock(mutex, &system);
}

extern "C" int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                                          const timespec* deadline) noexcept {
  const timespec system = on_system_clock(clock, *deadline);
  return pthread_rwlock_timedrdlock(lock, &system);
}

extern "C" int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                                          const timespec* deadline) noexcept {
  const timespec system = on_system_clock(clock, *deadline);
  return pthread_rwlock_timedwrlock(lock, &system);
}
#endif
