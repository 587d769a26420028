// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Clouds whose metadata services say how a host is called.
const (
	CloudAWS = "AWS"
	CloudGCP = "GCP"
)

// Metadata is what the metadata service of a cloud says of a host.
type Metadata struct {
	// Cloud is one of the clouds. Empty: there is no metadata service.
	Cloud string
	// Hostname is how the cloud calls the host.
	Hostname string
}

// metadataAddress is that of the metadata services of all clouds.
const metadataAddress = "169.254.169.254"

// value is what an in-process host finds out there: what its agent on Windows asks for by HTTP.
func (m Metadata) value(source config.VariableSource) (string, error) {
	if of := map[config.VariableSource]string{config.SourceAWSLocalHostname: CloudAWS, config.SourceGCPHostname: CloudGCP}[source]; of == m.Cloud {
		return m.Hostname, nil
	}
	return "", errors.New("there is no such metadata service")
}

// ServeHTTP answers as the service of the cloud: that of AWS with a token only, which its second version demands,
// and that of GCP to those only who mean it.
func (m Metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const token = "a-token-of-the-metadata-service"
	answer, refused := "", 0
	switch m.Cloud + " " + r.Method + " " + r.URL.Path {
	case CloudAWS + " PUT /latest/api/token":
		if answer = token; r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") == "" {
			refused = http.StatusBadRequest
		}
	case CloudAWS + " GET /latest/meta-data/local-hostname":
		if answer = m.Hostname; r.Header.Get("X-aws-ec2-metadata-token") != token {
			refused = http.StatusUnauthorized
		}
	case CloudGCP + " GET /computeMetadata/v1/instance/hostname":
		if answer = m.Hostname; r.Header.Get("Metadata-Flavor") != "Google" {
			refused = http.StatusForbidden
		}
	default:
		refused = http.StatusNotFound
	}
	if refused != 0 {
		http.Error(w, http.StatusText(refused), refused)
		return
	}
	_, _ = io.WriteString(w, answer)
}

// metadataServer serves metadata in the network of one host.
type metadataServer struct {
	server *http.Server
	ended  chan error
}

// serveMetadata starts the service in a network, where it has its well-known address.
func serveMetadata(ctx context.Context, n *network, m Metadata) (*metadataServer, error) {
	var listener net.Listener
	err := n.do(func() (err error) {
		if err := n.ip(ctx, "address", "add", metadataAddress+"/32", "dev", "lo"); err != nil {
			return err
		}
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort(metadataAddress, "80"))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("serving metadata: %w", err)
	}
	s := &metadataServer{server: &http.Server{Handler: m, ReadHeaderTimeout: wineBootTimeout}, ended: make(chan error, 1)}
	go func() { s.ended <- s.server.Serve(listener) }()
	return s, nil
}

// close ends it. Nil is none.
func (s *metadataServer) close() error {
	if s == nil {
		return nil
	}
	err := s.server.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
