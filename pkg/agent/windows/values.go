// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// metadataClient uses no proxy: the address is local to the host.
var metadataClient = &http.Client{
	Timeout:       5 * time.Second,
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// awsLocalHostname uses the instance metadata service of AWS in its second version, with
// a token; see docs.aws.amazon.com, "Use the Instance Metadata Service".
func awsLocalHostname(ctx context.Context, address string) (string, error) {
	token, err := requestMetadata(ctx, http.MethodPut, address+"/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60")
	if err != nil {
		return "", err
	}
	names, err := requestMetadata(ctx, http.MethodGet, address+"/latest/meta-data/local-hostname", "X-aws-ec2-metadata-token", token)
	return firstName(names), err
}

// firstName is the first of several names that the options of a network may give a host, without the dot that an
// absolute name ends with: what OpenShift's own nodes on AWS are called.
func firstName(names string) string {
	first, _, _ := strings.Cut(names, " ")
	return strings.TrimSuffix(first, ".")
}

// gcpHostname uses the metadata server of GCP. A name that is too long for a label of DNS
// is cut as the kubelets of the cluster's own nodes cut it.
func gcpHostname(ctx context.Context, address string) (string, error) {
	const maxLabel = 63
	name, err := requestMetadata(ctx, http.MethodGet, address+"/computeMetadata/v1/instance/hostname", "Metadata-Flavor", "Google")
	if err != nil || len(name) <= maxLabel {
		return name, err
	}
	name, _, _ = strings.Cut(name, ".")
	return name[:min(len(name), maxLabel)], nil
}

func requestMetadata(ctx context.Context, method, url, header, value string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header.Set(header, value)
	response, err := metadataClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("requesting from the metadata service: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("requesting from the metadata service: %s answers %s", url, response.Status)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return "", fmt.Errorf("requesting from the metadata service: %w", err)
	}
	text := strings.TrimSpace(string(answer))
	if text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return "", errors.New("requesting from the metadata service: the answer is not one line")
	}
	return text, nil
}

// probeURL sends a request to a program on the host itself.
func probeURL(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := metadataClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
