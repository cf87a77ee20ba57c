/* A disk that is slow or full, for single processes. The file that DISK_FAULTS names says "MILLISECONDS DIRECTORY": who
   writes or syncs a file below that directory waits so long first, and finds no space when it is less than nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Whether there is space. */
static int disk(int fd) {
    char told[4096] = "", link[32], path[4096], *directory;
    const char *name = getenv("DISK_FAULTS");
    int before = errno, file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, told, sizeof told - 1);
    if (file >= 0)
        close(file);
    long wait_ms = length > 0 ? strtol(told, &directory, 10) : 0;
    if (wait_ms != 0) {
        directory += 1;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        length = readlink(link, path, sizeof path);
        size_t wanted = strlen(directory);
        if (length <= (ssize_t)wanted || strncmp(path, directory, wanted) != 0 || path[wanted] != '/')
            wait_ms = 0;
    }
    if (wait_ms > 0) {
        struct timespec pause = {wait_ms / 1000, wait_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    errno = wait_ms < 0 ? ENOSPC : before;
    return wait_ms >= 0;
}

ssize_t write(int fd, const void *from, size_t count) {
    return disk(fd) ? syscall(SYS_write, fd, from, count) : -1;
}

ssize_t pwrite(int fd, const void *from, size_t count, off_t at) {
    return disk(fd) ? syscall(SYS_pwrite64, fd, from, count, at) : -1;
}

ssize_t pwrite64(int fd, const void *from, size_t count, off64_t at) {
    return pwrite(fd, from, count, at);
}

ssize_t writev(int fd, const struct iovec *from, int count) {
    return disk(fd) ? syscall(SYS_writev, fd, from, count) : -1;
}

int fsync(int fd) {
    return disk(fd) ? (int)syscall(SYS_fsync, fd) : -1;
}

int fdatasync(int fd) {
    return disk(fd) ? (int)syscall(SYS_fdatasync, fd) : -1;
}
