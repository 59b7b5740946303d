/* Loaded before the C library: makes the disk fail as the file in DISK_SHIM_FILE says. "eio": syncs of files under
 * DISK_SHIM_UNDER fail; each leaves a letter in DISK_SHIM_FILE.calls, f for fsync and d for fdatasync. "slow": they take 400 ms
 * longer, and leave one as well. "full": writes to them find no space. Else: nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char mode(void) {
    const char *file = getenv("DISK_SHIM_FILE");
    char first = 0;
    int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        if (read(fd, &first, 1) != 1) first = 0;
        close(fd);
    }
    return first;
}

static int is_under(int fd) {
    const char *under = getenv("DISK_SHIM_UNDER");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (!under || size < 0) return 0;
    path[size] = 0;
    return strncmp(path, under, strlen(under)) == 0;
}

static int fails_sync(int fd, const char *letter) {
    char how = is_under(fd) ? mode() : 0;
    if (how != 'e' && how != 's') return 0;
    char calls[4096];
    snprintf(calls, sizeof calls, "%s.calls", getenv("DISK_SHIM_FILE"));
    int count = open(calls, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (count >= 0) {
        real(count, letter, 1);
        close(count);
    }
    if (how == 's') {
        usleep(400 * 1000);
        return 0;
    }
    errno = EIO;
    return 1;
}

static int finds_no_space(int fd) {
    if (fd <= 2 || !is_under(fd) || mode() != 'f') return 0;
    errno = ENOSPC;
    return 1;
}

int fsync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    return fails_sync(fd, "f") ? -1 : real(fd);
}

int fdatasync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    return fails_sync(fd, "d") ? -1 : real(fd);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    return finds_no_space(fd) ? -1 : real(fd, bytes, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
    return finds_no_space(fd) ? -1 : real(fd, bytes, count, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return finds_no_space(fd) ? -1 : real(fd, bytes, count, at);
}
