// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/openshift/windows-instance-api/test/programs"
	"github.com/openshift/windows-instance-api/test/winhost/internal/wineproto"
)

// Where Debian's wine64 package puts what is needed; it has no command in PATH.
const (
	wineProgram = "/usr/lib/wine/wine64"
	wineServer  = "/usr/lib/wine/wineserver64"
	wineDLLs    = "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows"
	mingwGCC    = "x86_64-w64-mingw32-gcc"
)

//go:embed shim/*.c
var shims embed.FS

//go:embed wine_template.reg
var templateRegistry []byte

// templateScript makes a Wine prefix in $WINEPREFIX from the shim DLLs in $1 and the
// registry file $2. It runs on a machine of its own, so nothing of it can stay behind.
const templateScript = `set -e
wine64=` + wineProgram + ` server=` + wineServer + `
"$wine64" wineboot -i </dev/null >/dev/null 2>&1
"$server" -w
cp -f "$1"/*.dll "$WINEPREFIX/drive_c/windows/system32/"
"$wine64" winecfg /v win10 </dev/null >/dev/null 2>&1 || true
"$wine64" regedit /S "$2" </dev/null
"$server" -w
`

// wineAddresses has all processes of Wine start: wine64 is linked to an address below that of the data which
// every process of Windows shares, 0x7ffe0000, and one in some thousands found its own heap there, by chance.
const wineAddresses = true

// wineEnv is the environment of everything that Wine runs in a prefix: no display, no
// parts that want one, no menus, no Mono or Gecko. Debian's Wine puts its sockets into a
// new directory in $TMPDIR, whose name it keeps in the file wineserver of the prefix.
func wineEnv(prefix, home, sockets string) []string {
	return []string{
		"TMPDIR=" + sockets,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + home,
		"LANG=C.UTF-8",
		"WINEPREFIX=" + prefix,
		"WINEARCH=win64",
		"WINEDEBUG=-all",
		"WINEDLLOVERRIDES=mscoree,mshtml,winemenubuilder.exe=",
	}
}

// WineAvailable says precisely what this machine lacks for Wine hosts, nil if nothing.
func WineAvailable() error {
	var missing []error
	for _, f := range []struct{ path, install string }{
		{wineProgram, "wine64"},
		{wineServer, "wine64"},
		{wineDLLs, "wine64"},
	} {
		if _, err := os.Stat(f.path); err != nil {
			missing = append(missing, fmt.Errorf("%s is missing: apt-get install --no-install-recommends %s", f.path, f.install))
		}
	}
	for _, p := range []struct{ program, install string }{
		{mingwGCC, "apt-get install --no-install-recommends gcc-mingw-w64-x86-64-win32"},
		{"go", "install Go; it builds the SSH server of the hosts"},
	} {
		if _, err := exec.LookPath(p.program); err != nil {
			missing = append(missing, fmt.Errorf("%s is missing: %s", p.program, p.install))
		}
	}
	if err := machineAvailable(); err != nil {
		missing = append(missing, err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("no Wine hosts on this machine: %w", errors.Join(missing...))
	}
	return nil
}

// wineTemplate returns the directory of the Wine prefix that hosts are copied from. It is
// built once for each version of its sources and of Wine, which takes some 15 seconds.
func wineTemplate(ctx context.Context) (string, error) {
	hash, err := templateHash()
	if err != nil {
		return "", err
	}
	cache, err := programs.CacheDir()
	if err != nil {
		return "", err
	}
	template := filepath.Join(cache, "wine-"+hash)
	return template, programs.Locked(cache, "wine", func() error {
		now := time.Now()
		if err := os.Chtimes(template, now, now); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := removeOldTemplates(cache, now); err != nil {
			return err
		}
		work, err := os.MkdirTemp(cache, "wine-building-")
		if err != nil {
			return err
		}
		if err := buildTemplate(ctx, work); err != nil {
			return errors.Join(fmt.Errorf("building the Wine template: %w", err), os.RemoveAll(work))
		}
		if err := os.Rename(filepath.Join(work, "prefix"), template); err != nil {
			return err
		}
		return os.RemoveAll(work)
	})
}

// removeOldTemplates removes the templates that nobody has used for a week. Those of other
// versions of the sources stay as long as somebody goes back and forth between them.
func removeOldTemplates(cache string, now time.Time) error {
	templates, err := filepath.Glob(filepath.Join(cache, "wine-*"))
	if err != nil {
		return err
	}
	for _, t := range templates {
		if st, err := os.Stat(t); err == nil && st.IsDir() && now.Sub(st.ModTime()) > 7*24*time.Hour {
			if err := os.RemoveAll(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// templateHash covers everything that a template is made from.
func templateHash() (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, templateScript, strings.Join(templateDirs, "\n"))
	_, _ = h.Write(templateRegistry)
	err := fs.WalkDir(shims, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := shims.ReadFile(path)
		_, _ = fmt.Fprintln(h, path)
		_, _ = h.Write(b)
		return err
	})
	if err != nil {
		return "", err
	}
	// Another Wine is another size or time of this file.
	for _, f := range []string{wineServer, filepath.Join(wineDLLs, "kernel32.dll")} {
		st, err := os.Stat(f)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintln(h, f, st.Size(), st.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// templateDirs are directories of drive C: that a Windows host has and Wine does not.
var templateDirs = []string{
	"ProgramData",
	"users/Administrator", // Wine spells it so, and the case matters below it
	"var/log",
	wineproto.Rel,
}

// buildTemplate makes work/prefix.
func buildTemplate(ctx context.Context, work string) error {
	prefix, bin, sockets := filepath.Join(work, "prefix"), filepath.Join(work, "bin"), filepath.Join(work, "sockets")
	registry := filepath.Join(work, "template.reg")
	for _, d := range []string{bin, sockets, filepath.Join(work, "home")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(registry, templateRegistry, 0o600); err != nil {
		return err
	}
	if err := buildShims(ctx, bin); err != nil {
		return err
	}
	m, err := startMachine(machineSpec{
		hostname:       "template",
		script:         "exec sh -c '" + templateScript + "' sh \"$@\"",
		args:           []string{bin, registry},
		env:            wineEnv(prefix, filepath.Join(work, "home"), sockets),
		dir:            work,
		console:        filepath.Join(work, "console.log"),
		fixedAddresses: wineAddresses,
	})
	if err != nil {
		return err
	}
	defer m.kill()
	select {
	case <-m.ended:
		if code := m.cmd.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("exit code %d%s", code, m.tail())
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, d := range templateDirs {
		if err := os.MkdirAll(filepath.Join(prefix, "drive_c", d), 0o755); err != nil {
			return err
		}
	}
	// The hosts have a drive C: and no way to the files of this machine, and each has
	// sockets of its own.
	for _, gone := range []string{"dosdevices/z:", "dosdevices/z::", "wineserver"} {
		if err := os.Remove(filepath.Join(prefix, gone)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return thin(filepath.Join(prefix, "drive_c", "windows"))
}

// buildShims compiles every shim DLL into dir.
func buildShims(ctx context.Context, dir string) error {
	sources, err := fs.Glob(shims, "shim/*.c")
	if err != nil {
		return err
	}
	for _, src := range sources {
		b, err := shims.ReadFile(src)
		if err != nil {
			return err
		}
		dll := filepath.Join(dir, strings.TrimSuffix(filepath.Base(src), ".c")+".dll")
		// No C run-time library, and no compiler that makes memset of a loop and then misses it.
		cmd := exec.CommandContext(ctx, mingwGCC, "-shared", "-nostdlib", "-Os", "-fno-tree-loop-distribute-patterns",
			"-fno-builtin", "-s", "-o", dll, "-x", "c", "-", "-loleaut32", "-ladvapi32", "-lkernel32", "-Wl,-e,DllMainCRTStartup")
		cmd.Stdin = bytes.NewReader(b)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compiling %s: %w\n%s", src, err, out)
		}
	}
	return nil
}

// thin replaces every file that Wine copied into the prefix by a link to Wine's own. It
// makes a prefix of 24 MB from one of 700, and copying it as much faster.
func thin(windows string) error {
	return filepath.WalkDir(windows, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		original := filepath.Join(wineDLLs, d.Name())
		if same, err := sameContent(path, original); err != nil || !same {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Symlink(original, path)
	})
}

// sameContent reports whether b exists and equals a.
func sameContent(a, b string) (bool, error) {
	y, err := os.ReadFile(b)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	x, err := os.ReadFile(a)
	return bytes.Equal(x, y), err
}
