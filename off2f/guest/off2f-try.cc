// SPDX-License-Identifier: Apache-2.0 OR MIT
// build: -pthread -ldl
/*
 * Does what a wrong program loader would break: threads, fork, chains of exec,
 * vfork, dlopen, exceptions, thread-local storage, signals on an alternate
 * stack, constructors, and a write into its own text, which must fail.
 * Prints `ok` and exits with 0 if everything is right.
 *
 *   off2f-try [exec N]
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static thread_local int own = 7;
static int constructed;
static sigjmp_buf back;
static char *volatile stack_seen;

namespace
{
struct Early {
	Early()
	{
		constructed = 42;
	}
} early;
} // namespace

static void need(bool right, const char *what)
{
	if (!right) {
		fprintf(stderr, "off2f-try: %s\n", what);
		exit(1);
	}
}

static int thrower(int depth)
{
	if (!depth)
		throw std::runtime_error("deep");
	return thrower(depth - 1) + 1;
}

static void exceptions()
{
	bool caught = false;
	try {
		thrower(20);
	} catch (const std::exception &error) {
		caught = std::string(error.what()) == "deep";
	}
	need(caught, "an exception was not caught");
}

static void threads()
{
	std::vector<std::thread> all;
	long sums[8] = {};
	for (int n = 0; n < 8; n++)
		all.emplace_back([n, &sums] {
			for (own = 0; own < 100000; own++)
				sums[n] += own;
		});
	for (auto &one : all)
		one.join();
	for (long sum : sums)
		need(sum == 4999950000, "a thread's sum");
	need(own == 7, "thread-local storage");
}

static void on_signal(int)
{
	char here;
	stack_seen = &here;
	siglongjmp(back, 1);
}

static void signals()
{
	static char stack[65536];
	stack_t alternate = {};
	struct sigaction action = {};
	alternate.ss_sp = stack;
	alternate.ss_size = sizeof(stack);
	need(!sigaltstack(&alternate, nullptr), "sigaltstack");
	action.sa_handler = on_signal;
	action.sa_flags = SA_ONSTACK | SA_NODEFER;
	sigaction(SIGSEGV, &action, nullptr);
	/* A write into the text faults, on the other stack. */
	if (!sigsetjmp(back, 1)) {
		*reinterpret_cast<volatile char *>(&thrower) = 0;
		need(false, "the text was written to");
	}
	need(stack_seen >= stack && stack_seen < stack + sizeof(stack),
	     "the alternate signal stack");
	signal(SIGSEGV, SIG_DFL);
}

static void processes(const char *self)
{
	int status;
	pid_t pid = fork();
	if (!pid) {
		exceptions();
		_exit(own == 7 ? 17 : 1);
	}
	waitpid(pid, &status, 0);
	need(WIFEXITED(status) && WEXITSTATUS(status) == 17, "fork");
	pid = vfork();
	if (!pid) {
		execl(self, self, "exec", "5", nullptr);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	need(WIFEXITED(status) && WEXITSTATUS(status) == 23,
	     "vfork and a chain of exec");
}

static void libraries()
{
	void *library = dlopen("libm.so.6", RTLD_NOW);
	need(library, "dlopen");
	auto cosine =
		reinterpret_cast<double (*)(double)>(dlsym(library, "cos"));
	need(cosine && cosine(0) == 1, "dlsym");
	dlclose(library);
}

/* A private copy of a page of text may be written, as by debuggers. */
static void own_copy()
{
	auto page = reinterpret_cast<unsigned long>(&thrower) & ~4095UL;
	auto *at = reinterpret_cast<volatile unsigned char *>(page);
	unsigned char before = at[0];
	need(!mprotect(reinterpret_cast<void *>(page), 4096,
		       PROT_READ | PROT_WRITE | PROT_EXEC),
	     "mprotect");
	at[0] = static_cast<unsigned char>(~before);
	need(at[0] == static_cast<unsigned char>(~before), "a private copy");
	at[0] = before;
	need(!mprotect(reinterpret_cast<void *>(page), 4096,
		       PROT_READ | PROT_EXEC),
	     "mprotect");
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "exec")) {
		int left = atoi(argv[2]);
		if (!left)
			return 23;
		std::string next = std::to_string(left - 1);
		execl(argv[0], argv[0], "exec", next.c_str(), nullptr);
		return 1;
	}
	need(constructed == 42, "constructors");
	need(getauxval(AT_PHDR) && getauxval(AT_ENTRY) &&
		     getauxval(AT_SYSINFO_EHDR),
	     "auxv");
	exceptions();
	threads();
	signals();
	processes(argv[0]);
	libraries();
	own_copy();
	exceptions();
	printf("ok uid %d euid %d secure %lu\n", getuid(), geteuid(),
	       getauxval(AT_SECURE));
	return 0;
}
