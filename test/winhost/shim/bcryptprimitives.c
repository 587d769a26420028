/* SPDX-License-Identifier: Apache-2.0
   Copyright The Windows Instance API Authors. */

/* bcryptprimitives.dll for Wine before version 9, which has none. Programs built with Go 1.22
   or newer load it first of all, for ProcessPrng, and do not start without it.

   As every Go program passes here, this is also where calls that such programs need and Wine
   8 gets wrong are put right. It replaces entries in the export tables of other DLLs, so only
   calls that are looked up by name afterwards, as Go's are, come here:

     socket, bind, getsockname    AF_UNIX listeners (Wine: WSAEAFNOSUPPORT). Such a listener
                                  becomes one on 127.0.0.1 and an empty file at its path, to
                                  which nobody can connect. The kubelet's device plugin
                                  server wants to listen so.
     CreateSymbolicLinkW          Wine returns TRUE and makes nothing. Here a link to a file
                                  becomes a copy of it and one to a directory an error.
     QueryServiceStatusEx         Wine says of a service whose process has died that it runs.
                                  Here it is STOPPED, with exit code 1067.
     InitiateSystemShutdownExW    Wine returns TRUE and goes on. Here a file tells whoever
                                  looks after the host what was asked for.

   This makes a Wine host kinder than Wine is: a test that is green by these calls proves
   nothing about Windows. */

#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <windows.h>
#include <winsvc.h>

#define EXPORT __declspec(dllexport)

BOOLEAN WINAPI SystemFunction036(PVOID buf, ULONG len); /* advapi32: RtlGenRandom */

/* AF_UNIX */

#define UNIX_FAMILY 1
#define UNIX_PATH 108

static SOCKET(WINAPI *real_socket)(int, int, int, void *, GROUP, DWORD);
static int(WINAPI *real_bind)(SOCKET, const struct sockaddr *, int);
static int(WINAPI *real_getsockname)(SOCKET, struct sockaddr *, int *);

static struct {
	SOCKET socket;
	char path[UNIX_PATH];
} unix_sockets[64];
static LONG unix_count;

static SOCKET WINAPI my_socket(int family, int type, int protocol, void *info, GROUP group, DWORD flags)
{
	if (family == UNIX_FAMILY) {
		family = AF_INET;
		protocol = 0;
	}
	return real_socket(family, type, protocol, info, group, flags);
}

/* There is no C library here: the volatile keeps the compiler from calling memcpy. */
static void copy_path(char *to, const char *from)
{
	int i;
	for (i = 0; i < UNIX_PATH - 1 && from[i]; i++)
		((volatile char *)to)[i] = from[i];
	for (; i < UNIX_PATH; i++)
		((volatile char *)to)[i] = 0;
}

static int WINAPI my_bind(SOCKET s, const struct sockaddr *addr, int len)
{
	struct sockaddr_in in;
	HANDLE file;
	int i, result;

	if (!addr || addr->sa_family != UNIX_FAMILY)
		return real_bind(s, addr, len);
	file = CreateFileA(addr->sa_data, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, CREATE_ALWAYS, 0, NULL);
	if (file != INVALID_HANDLE_VALUE)
		CloseHandle(file);
	for (i = 0; i < (int)sizeof in; i++)
		((volatile char *)&in)[i] = 0;
	in.sin_family = AF_INET;
	in.sin_addr.s_addr = 0x0100007f; /* 127.0.0.1 */
	result = real_bind(s, (struct sockaddr *)&in, sizeof in);
	if (result == 0) {
		i = InterlockedIncrement(&unix_count) & 63;
		unix_sockets[i].socket = s;
		copy_path(unix_sockets[i].path, addr->sa_data);
	}
	return result;
}

static int WINAPI my_getsockname(SOCKET s, struct sockaddr *addr, int *len)
{
	int i;
	for (i = 0; i < 64; i++)
		if (s && unix_sockets[i].socket == s && *len >= 2 + UNIX_PATH) {
			addr->sa_family = UNIX_FAMILY;
			copy_path(addr->sa_data, unix_sockets[i].path);
			*len = 2 + UNIX_PATH;
			return 0;
		}
	return real_getsockname(s, addr, len);
}

/* Symbolic links. A hard link instead of a copy would be refused by the rename that
   client-go's certificate store does next: its target is still open. */

static BOOLEAN WINAPI my_symlink(LPCWSTR link, LPCWSTR target, DWORD flags)
{
	if (flags & SYMBOLIC_LINK_FLAG_DIRECTORY) {
		SetLastError(ERROR_PRIVILEGE_NOT_HELD);
		return FALSE;
	}
	return CopyFileW(target, link, TRUE);
}

/* Services */

static BOOL(WINAPI *real_query)(SC_HANDLE, int, LPBYTE, DWORD, LPDWORD);

static BOOL WINAPI my_query(SC_HANDLE service, int level, LPBYTE buf, DWORD size, LPDWORD needed)
{
	SERVICE_STATUS_PROCESS *status = (void *)buf;
	HANDLE process;
	BOOL alive;

	if (!real_query(service, level, buf, size, needed))
		return FALSE;
	if (status->dwCurrentState == SERVICE_STOPPED || !status->dwProcessId)
		return TRUE;
	process = OpenProcess(SYNCHRONIZE, FALSE, status->dwProcessId);
	alive = process && WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
	if (process)
		CloseHandle(process);
	if (!alive) {
		status->dwCurrentState = SERVICE_STOPPED;
		status->dwWin32ExitCode = ERROR_PROCESS_ABORTED;
		status->dwProcessId = 0;
		status->dwControlsAccepted = 0;
	}
	return TRUE;
}

/* Restart. The file is wineproto.ShutdownFile; it appears whole, by a rename. */

static BOOL WINAPI my_shutdown(LPWSTR machine, LPWSTR message, DWORD timeout, BOOL force, BOOL reboot, DWORD reason)
{
	HANDLE file = CreateFileA("C:\\winsshd\\shutdown.tmp", GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
	DWORD written;

	if (file == INVALID_HANDLE_VALUE)
		return FALSE;
	WriteFile(file, reboot ? "restart" : "off", reboot ? 7 : 3, &written, NULL);
	CloseHandle(file);
	return MoveFileExA("C:\\winsshd\\shutdown.tmp", "C:\\winsshd\\shutdown", MOVEFILE_REPLACE_EXISTING);
}

/* Export tables */

static BOOL same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* near_page returns memory for code within reach of a module: an entry of its export table
   is an offset of 32 bits. */
static BYTE *near_page(BYTE *module)
{
	BYTE *page = NULL;
	SIZE_T distance;
	for (distance = 0x100000; module && !page && distance < 0x70000000; distance += 0x10000)
		page = VirtualAlloc(module + distance, 4096, MEM_COMMIT | MEM_RESERVE, PAGE_EXECUTE_READWRITE);
	return page;
}

/* hook replaces an export of a module and returns what it was. *code is the next free byte
   of the module's near page. */
static void *hook(BYTE *module, const char *name, void *replacement, BYTE **code)
{
	IMAGE_NT_HEADERS *nt = (void *)(module + ((IMAGE_DOS_HEADER *)module)->e_lfanew);
	IMAGE_EXPORT_DIRECTORY *dir = (void *)(module + nt->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXPORT].VirtualAddress);
	DWORD *names = (void *)(module + dir->AddressOfNames);
	DWORD *functions = (void *)(module + dir->AddressOfFunctions);
	WORD *ordinals = (void *)(module + dir->AddressOfNameOrdinals);
	DWORD i, protection;

	for (i = 0; i < dir->NumberOfNames; i++)
		if (same((char *)module + names[i], name)) {
			DWORD *entry = &functions[ordinals[i]];
			void *was = module + *entry;
			BYTE *jump = *code;
			jump[0] = 0xff; /* jmp [rip+0] */
			jump[1] = 0x25;
			*(DWORD *)(jump + 2) = 0;
			*(void **)(jump + 6) = replacement;
			*code += 16;
			VirtualProtect(entry, sizeof *entry, PAGE_READWRITE, &protection);
			*entry = (DWORD)(jump - module);
			VirtualProtect(entry, sizeof *entry, protection, &protection);
			return was;
		}
	return NULL;
}

static void install(void)
{
	BYTE *module = (BYTE *)GetModuleHandleA("kernel32.dll"), *code = near_page(module);
	if (code)
		hook(module, "CreateSymbolicLinkW", my_symlink, &code);

	/* advapi32 only forwards QueryServiceStatusEx to sechost. */
	real_query = (void *)GetProcAddress(LoadLibraryA("sechost.dll"), "QueryServiceStatusEx");
	module = (BYTE *)GetModuleHandleA("advapi32.dll");
	code = near_page(module);
	if (code) {
		if (real_query)
			hook(module, "QueryServiceStatusEx", my_query, &code);
		hook(module, "InitiateSystemShutdownExW", my_shutdown, &code);
	}

	module = (BYTE *)LoadLibraryA("ws2_32.dll");
	code = near_page(module);
	if (code) {
		real_socket = hook(module, "WSASocketW", my_socket, &code);
		real_bind = hook(module, "bind", my_bind, &code);
		real_getsockname = hook(module, "getsockname", my_getsockname, &code);
	}
}

EXPORT BOOL WINAPI ProcessPrng(PBYTE buf, SIZE_T len)
{
	static LONG installed;
	if (!InterlockedExchange(&installed, 1))
		install();
	while (len) {
		ULONG n = len > 0x10000000 ? 0x10000000 : (ULONG)len;
		if (!SystemFunction036(buf, n))
			return FALSE;
		buf += n;
		len -= n;
	}
	return TRUE;
}

BOOL WINAPI DllMainCRTStartup(HINSTANCE instance, DWORD reason, LPVOID reserved)
{
	return TRUE;
}
