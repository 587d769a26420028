// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build windows

package main

import (
	"context"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeServer is a runtime without pods. What it does not implement is refused.
type runtimeServer struct {
	runtimev1.UnimplementedRuntimeServiceServer
}

func (*runtimeServer) Version(context.Context, *runtimev1.VersionRequest) (*runtimev1.VersionResponse, error) {
	return &runtimev1.VersionResponse{Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: "v2.0.0-test", RuntimeApiVersion: "v1"}, nil
}

func (*runtimeServer) Status(context.Context, *runtimev1.StatusRequest) (*runtimev1.StatusResponse, error) {
	return &runtimev1.StatusResponse{Status: &runtimev1.RuntimeStatus{Conditions: []*runtimev1.RuntimeCondition{
		{Type: runtimev1.RuntimeReady, Status: true},
		{Type: runtimev1.NetworkReady, Status: true},
	}}}, nil
}

func (*runtimeServer) UpdateRuntimeConfig(context.Context, *runtimev1.UpdateRuntimeConfigRequest) (*runtimev1.UpdateRuntimeConfigResponse, error) {
	return &runtimev1.UpdateRuntimeConfigResponse{}, nil
}

func (*runtimeServer) ListPodSandbox(context.Context, *runtimev1.ListPodSandboxRequest) (*runtimev1.ListPodSandboxResponse, error) {
	return &runtimev1.ListPodSandboxResponse{}, nil
}

func (*runtimeServer) ListPodSandboxStats(context.Context, *runtimev1.ListPodSandboxStatsRequest) (*runtimev1.ListPodSandboxStatsResponse, error) {
	return &runtimev1.ListPodSandboxStatsResponse{}, nil
}

func (*runtimeServer) ListContainers(context.Context, *runtimev1.ListContainersRequest) (*runtimev1.ListContainersResponse, error) {
	return &runtimev1.ListContainersResponse{}, nil
}

func (*runtimeServer) ListContainerStats(context.Context, *runtimev1.ListContainerStatsRequest) (*runtimev1.ListContainerStatsResponse, error) {
	return &runtimev1.ListContainerStatsResponse{}, nil
}

// imageServer is a store without images.
type imageServer struct {
	runtimev1.UnimplementedImageServiceServer
}

func (*imageServer) ListImages(context.Context, *runtimev1.ListImagesRequest) (*runtimev1.ListImagesResponse, error) {
	return &runtimev1.ListImagesResponse{}, nil
}

func (*imageServer) ImageFsInfo(context.Context, *runtimev1.ImageFsInfoRequest) (*runtimev1.ImageFsInfoResponse, error) {
	usage := []*runtimev1.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &runtimev1.FilesystemIdentifier{Mountpoint: `C:\`},
		UsedBytes: &runtimev1.UInt64Value{Value: 1 << 20}, InodesUsed: &runtimev1.UInt64Value{Value: 10},
	}}
	return &runtimev1.ImageFsInfoResponse{ImageFilesystems: usage, ContainerFilesystems: usage}, nil
}
