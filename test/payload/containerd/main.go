// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

// Command containerd stands in for containerd.exe on hosts that can run no containers, such
// as Wine hosts. It takes the arguments that the real one gets as a service, is a service, and
// serves on the real one's named pipe those calls of the Container Runtime Interface that a
// kubelet needs to be Ready. There are no pods, no images and no network; whoever wants to run
// a pod is refused.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"google.golang.org/grpc"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// pipeName is where the configuration of the real one has it listen.
const pipeName = `\\.\pipe\containerd-containerd`

// logger writes to the log file; a service has no standard error.
var logger = log.New(os.Stderr, "", log.LstdFlags|log.LUTC)

func main() {
	var config, logFile, logLevel string
	var service bool
	flag.StringVar(&config, "config", "", "the configuration; it must be there, and is not looked at")
	flag.StringVar(&logFile, "log-file", "", "where to write the log")
	flag.StringVar(&logLevel, "log-level", "", "not looked at")
	flag.BoolVar(&service, "run-service", false, "run as the service containerd")
	flag.Parse()
	if err := run(config, logFile, service); err != nil {
		logger.Fatal(err)
	}
}

func run(config, logFile string, service bool) error {
	if logFile != "" {
		f, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		logger.SetOutput(f)
	}
	if _, err := os.Stat(config); err != nil {
		return fmt.Errorf("the configuration: %w", err)
	}
	if !service {
		return serve(nil)
	}
	h := &handler{}
	return errors.Join(svc.Run("containerd", h), h.err)
}

// serve serves until stop is closed.
func serve(stop <-chan struct{}) error {
	l, err := listenPipe(pipeName)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	runtimev1.RegisterRuntimeServiceServer(s, &runtimeServer{})
	runtimev1.RegisterImageServiceServer(s, &imageServer{})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	logger.Printf("serving on %s", pipeName)
	select {
	case <-stop:
		s.Stop()
		if err := <-ended; !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	case err := <-ended:
		return err
	}
}

// handler implements [svc.Handler].
type handler struct{ err error }

// Execute implements [svc.Handler].
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- serve(stop) }()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for {
		select {
		case h.err = <-ended:
			logger.Print(h.err)
			return true, 1
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending}
				close(stop)
				h.err = <-ended
				return false, 0
			default:
			}
		}
	}
}

// pipeListener accepts connections to a named pipe. It is not go-winio's: under Wine, clients
// get connected to the instance that go-winio makes only to own the name.
type pipeListener struct {
	name  *uint16
	ready windows.Handle // an event: a client has connected, or the listener is closed
	next  windows.Handle // the instance that the next client gets
	done  chan struct{}
}

// Limits of the buffers of a pipe, in bytes.
const pipeBuffer = 64 << 10

func listenPipe(name string) (net.Listener, error) {
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	ready, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return nil, fmt.Errorf("making an event: %w", err)
	}
	l := &pipeListener{name: n, ready: ready, done: make(chan struct{})}
	if err := l.instance(windows.FILE_FLAG_FIRST_PIPE_INSTANCE); err != nil {
		return nil, err
	}
	return l, nil
}

// instance makes what the next client connects to.
func (l *pipeListener) instance(flags uint32) (err error) {
	l.next, err = windows.CreateNamedPipe(l.name, windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED|flags,
		windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, windows.PIPE_UNLIMITED_INSTANCES, pipeBuffer, pipeBuffer, 0, nil)
	if err != nil {
		return fmt.Errorf("making the pipe: %w", err)
	}
	return nil
}

// Accept implements [net.Listener].
func (l *pipeListener) Accept() (net.Conn, error) {
	overlapped := &windows.Overlapped{HEvent: l.ready}
	err := windows.ConnectNamedPipe(l.next, overlapped)
	if errors.Is(err, windows.ERROR_IO_PENDING) {
		_, err = windows.WaitForSingleObject(l.ready, windows.INFINITE)
	}
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	if err != nil && !errors.Is(err, windows.ERROR_PIPE_CONNECTED) {
		return nil, fmt.Errorf("waiting for a client: %w", err)
	}
	connected := l.next
	if err := l.instance(0); err != nil {
		return nil, err
	}
	return pipeConn{os.NewFile(uintptr(connected), pipeName)}, nil
}

// Close implements [net.Listener]. The handles go with the process.
func (l *pipeListener) Close() error {
	close(l.done)
	return windows.SetEvent(l.ready)
}

// Addr implements [net.Listener].
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return pipeName }

// pipeConn is a connection. A file that was opened for overlapped I/O has deadlines.
type pipeConn struct{ *os.File }

func (pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }
