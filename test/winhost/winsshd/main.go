// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

// winsshd is the SSH server of a Wine host: a Windows service that looks like OpenSSH for
// Windows from outside and can be told to misbehave. It runs command lines with cmd.exe,
// each in a job object of its own so that nothing survives its session, and serves the
// host's files over SFTP. It is a test fixture: it takes its orders, its keys and its
// faults from plain files, see package wineproto.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/windows/svc"

	"github.com/openshift/windows-instance-api/test/winhost/fault"
	"github.com/openshift/windows-instance-api/test/winhost/internal/sshserver"
	"github.com/openshift/windows-instance-api/test/winhost/internal/wineproto"
	"github.com/openshift/windows-instance-api/test/winhost/internal/winfs"
)

// logger writes to the service's log file; a service has no standard error.
var logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)

func main() {
	service := flag.Bool("service", false, "run as a service (under Wine a service cannot find out by itself that it is one)")
	flag.Parse()
	if f, err := os.OpenFile(file(wineproto.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		logger.SetOutput(f)
	}
	var err error
	if *service {
		err = svc.Run(wineproto.ServiceName, handler{})
	} else {
		err = listenAndServe(context.Background(), func() {})
	}
	if err != nil {
		logger.Fatal(err)
	}
}

func file(name string) string { return filepath.Join(wineproto.Dir, name) }

type handler struct{}

// Execute implements [svc.Handler].
func (handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.StartPending}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended, listening := make(chan error, 1), make(chan struct{})
	go func() { ended <- listenAndServe(ctx, sync.OnceFunc(func() { close(listening) })) }()
	for {
		select {
		case <-listening:
			listening = nil
			status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
		case err := <-ended:
			logger.Print(err)
			return true, 1
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending}
				cancel()
				logger.Print("stopped: ", <-ended)
				return false, 0
			}
		}
	}
}

// listenAndServe serves until ctx is done and calls listening once clients may come.
func listenAndServe(ctx context.Context, listening func()) error {
	var cfg wineproto.Config
	b, err := os.ReadFile(file(wineproto.ConfigFile))
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if err := json.Unmarshal(b, &cfg); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(cfg.Listen, "0"))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	running := &counter{}
	if err := running.add(0); err != nil {
		return err
	}
	if err := awaitAdapters(ctx); err != nil {
		return err
	}
	if err := writeFile(wineproto.AddressFile, l.Addr().String()); err != nil {
		return err
	}
	logger.Print("listening on ", l.Addr())
	listening()

	server := newServer(cfg, running)
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		conns.Go(func() { server.Conn(ctx, c) })
	}
}

// awaitAdapters returns when Windows knows the network. Wine's driver for that starts beside the services, and on a
// busy machine after this one; until then there are no adapters.
func awaitAdapters(ctx context.Context) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		if adapters, err := net.Interfaces(); err == nil && len(adapters) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// counter is the number in RunningFile.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add(change int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += change
	return writeFile(wineproto.RunningFile, strconv.Itoa(c.n))
}

// writeFile replaces a file so that nobody ever reads half of it.
func writeFile(name, content string) error {
	tmp := file(name) + ".tmp"
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file(name))
}

func newServer(cfg wineproto.Config, running *counter) *sshserver.Server {
	files := &winfs.FS{
		Home: "/C:/Users/" + cfg.User,
		Local: func(clean string) (string, error) {
			return filepath.FromSlash(strings.TrimPrefix(clean, "/")) + rootSlash(clean), nil
		},
		Drives: func() []string { return []string{"C:"} },
		Fault:  readFault,
	}
	sameUser := func(user string) bool { return strings.EqualFold(user, cfg.User) }
	s := &sshserver.Server{
		Fault:      readFault,
		HostKey:    readHostKey,
		Authorized: func(user string, key ssh.PublicKey) bool { return sameUser(user) && authorized(key) },
		OnCommand: func(line string) {
			if err := record(line); err != nil {
				logger.Print("recording a command: ", err)
			}
		},
		Exec: newRunner(cfg.User).run,
		OnRun: func(change int) {
			if err := running.add(change); err != nil {
				logger.Print("recording what runs: ", err)
			}
		},
		SFTP: files.Serve,
		Dial: func(ctx context.Context, host string, port int) (net.Conn, error) {
			return sshserver.DialLoopback(ctx, cfg.Listen, host, port)
		},
		Logf: logger.Printf,
	}
	if cfg.Password != "" {
		s.Password = func(user, password string) bool { return sameUser(user) && password == cfg.Password }
	}
	return s
}

// rootSlash makes a drive alone its root directory: C: is the current directory of C:.
func rootSlash(clean string) string {
	if strings.Count(clean, "/") == 1 {
		return `\`
	}
	return ""
}

func readFault() fault.Fault {
	var f fault.Fault
	b, err := os.ReadFile(file(wineproto.FaultFile))
	if errors.Is(err, os.ErrNotExist) {
		return f
	}
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		logger.Print("reading the fault: ", err)
	}
	return f
}

func readHostKey() (ssh.Signer, error) {
	b, err := os.ReadFile(file(wineproto.HostKeyFile))
	if err != nil {
		return nil, err
	}
	return ssh.ParsePrivateKey(b)
}

func authorized(key ssh.PublicKey) bool {
	rest, err := os.ReadFile(file(wineproto.KeysFile))
	if err != nil {
		logger.Print("reading the authorized keys: ", err)
		return false
	}
	for len(rest) > 0 {
		var k ssh.PublicKey
		if k, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err != nil {
			return false // nothing but empty lines is left
		}
		if bytes.Equal(k.Marshal(), key.Marshal()) {
			return true
		}
	}
	return false
}

// record notes a command line for the tests.
func record(line string) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file(wineproto.CommandsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// programOf returns the program that a command line names by a full path, or "". What only
// cmd.exe can read is left to it.
func programOf(line string) string {
	line = strings.TrimPrefix(line, "@")
	program, _, _ := strings.Cut(line, " ")
	if rest, quoted := strings.CutPrefix(line, `"`); quoted {
		program, _, _ = strings.Cut(rest, `"`)
	}
	if !filepath.IsAbs(program) || strings.ContainsAny(program, "%^") {
		return ""
	}
	return program
}

// notFound is what cmd.exe says on Windows. Wine's says something else and exits with 49.
func notFound(program string) string {
	return "'" + program + "' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n"
}
