// Metal.h: the declarations of Apple's Metal that metal_driver.mm uses (Apple's documentation of
// the framework), so that a compiler without Apple's headers can check that file. Not executed.
#pragma once
#import <Foundation/Foundation.h>

struct MTLSize {
  NSUInteger width, height, depth;
};
inline MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) {
  return {width, height, depth};
}

enum MTLResourceOptions : NSUInteger { MTLResourceStorageModeShared = 0 };
enum MTLPipelineOption : NSUInteger { MTLPipelineOptionNone = 0 };
enum MTLIndirectCommandType : NSUInteger { MTLIndirectCommandTypeConcurrentDispatch = 1 << 5 };
enum MTLLanguageVersion : NSUInteger { MTLLanguageVersion4_0 = 4 << 16 };
enum MTLMathMode : NSInteger { MTLMathModeSafe = 0 };
enum MTLMathFloatingPointFunctions : NSInteger { MTLMathFloatingPointFunctionsPrecise = 1 };
enum MTLGPUFamily : NSInteger { MTLGPUFamilyApple7 = 1007 };
enum MTLCommandBufferStatus : NSUInteger { MTLCommandBufferStatusError = 5 };

@protocol MTLAllocation <NSObject>
@end
@protocol MTLResource <MTLAllocation>
@end
@protocol MTLBuffer <MTLResource>
- (void*)contents;
@property(readonly) uint64_t gpuAddress;
@end
@protocol MTLFunction <NSObject>
@end
@protocol MTLLibrary <NSObject>
- (id<MTLFunction>)newFunctionWithName:(NSString*)name;
@end
@protocol MTLComputePipelineState <NSObject>
@property(readonly) NSUInteger threadExecutionWidth;
@property(readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@end

@interface MTLCompileOptions : NSObject
@property(readwrite) MTLLanguageVersion languageVersion;
@property(readwrite) MTLMathMode mathMode;
@property(readwrite) MTLMathFloatingPointFunctions mathFloatingPointFunctions;
@end
@interface MTLComputePipelineDescriptor : NSObject
@property(readwrite, strong) id<MTLFunction> computeFunction;
@property(readwrite) BOOL supportIndirectCommandBuffers;
@end
@class MTLComputePipelineReflection;

@interface MTLIndirectCommandBufferDescriptor : NSObject
@property(readwrite) MTLIndirectCommandType commandTypes;
@property(readwrite) BOOL inheritPipelineState;
@property(readwrite) BOOL inheritBuffers;
@property(readwrite) NSUInteger maxKernelBufferBindCount;
@property(readwrite) NSUInteger maxKernelThreadgroupMemoryBindCount;
@end
@protocol MTLIndirectComputeCommand <NSObject>
- (void)setComputePipelineState:(id<MTLComputePipelineState>)pipelineState;
- (void)setKernelBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)concurrentDispatchThreadgroups:(MTLSize)threadgroupsPerGrid
                 threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup;
- (void)setBarrier;
@end
@protocol MTLIndirectCommandBuffer <MTLResource>
- (id<MTLIndirectComputeCommand>)indirectComputeCommandAtIndex:(NSUInteger)commandIndex;
@end

@interface MTLResidencySetDescriptor : NSObject
@end
@protocol MTLResidencySet <NSObject>
- (void)addAllocation:(id<MTLAllocation>)allocation;
- (void)removeAllocation:(id<MTLAllocation>)allocation;
- (void)commit;
- (void)requestResidency;
@end

@protocol MTLComputeCommandEncoder <NSObject>
- (void)executeCommandsInBuffer:(id<MTLIndirectCommandBuffer>)buffer withRange:(NSRange)range;
- (void)endEncoding;
@end
@protocol MTLCommandBuffer <NSObject>
- (id<MTLComputeCommandEncoder>)computeCommandEncoder;
- (void)commit;
- (void)waitUntilCompleted;
@property(readonly) MTLCommandBufferStatus status;
@property(readonly) NSError* error;
@property(readonly) CFTimeInterval GPUStartTime;
@property(readonly) CFTimeInterval GPUEndTime;
@end
@protocol MTLCommandQueue <NSObject>
- (id<MTLCommandBuffer>)commandBuffer;
- (void)addResidencySet:(id<MTLResidencySet>)residencySet;
- (void)removeResidencySet:(id<MTLResidencySet>)residencySet;
@end

@protocol MTLDevice <NSObject>
@property(readonly) NSString* name;
@property(readonly) uint64_t recommendedMaxWorkingSetSize;
@property(readonly) NSUInteger maxBufferLength;
@property(readonly) NSUInteger maxThreadgroupMemoryLength;
@property(readonly) MTLSize maxThreadsPerThreadgroup;
@property(readonly) NSUInteger currentAllocatedSize;
- (BOOL)supportsFamily:(MTLGPUFamily)gpuFamily;
- (id<MTLCommandQueue>)newCommandQueue;
- (id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor*)descriptor
                                               error:(NSError* __autoreleasing*)error;
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (id<MTLLibrary>)newLibraryWithData:(dispatch_data_t)data error:(NSError* __autoreleasing*)error;
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source
                               options:(MTLCompileOptions*)options
                                 error:(NSError* __autoreleasing*)error;
- (id<MTLComputePipelineState>)
    newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor*)descriptor
                                  options:(MTLPipelineOption)options
                               reflection:(MTLComputePipelineReflection* __autoreleasing*)reflection
                                    error:(NSError* __autoreleasing*)error;
- (id<MTLIndirectCommandBuffer>)newIndirectCommandBufferWithDescriptor:
                                    (MTLIndirectCommandBufferDescriptor*)descriptor
                                                       maxCommandCount:(NSUInteger)maxCount
                                                               options:(MTLResourceOptions)options;
@end
extern "C" id<MTLDevice> MTLCreateSystemDefaultDevice() __attribute__((ns_returns_retained));
